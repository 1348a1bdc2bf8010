"""Tuning: which settings would have stopped the runaways of a recording, and left the good sessions alone.

Read `study` first: labels → a grid → replays → scores → a recommendation, held against sessions that did not choose it.
"""
