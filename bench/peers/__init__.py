"""Other loop detectors beside ours, on the same recordings.

The adapters and `protocol` run in the peers' environment, everything else in ours.
"""
