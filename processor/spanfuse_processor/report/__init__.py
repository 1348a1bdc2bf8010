"""Reports of replays and studies as one HTML file each, for people who were not there: no script, nothing of another host.

Read `files` first. What is drawn is worked out in `plots` and `timelines`, said in `replayed` and `tuned`, and laid out by
the templates, in the style of the live page.
"""
