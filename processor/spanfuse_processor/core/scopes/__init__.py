"""The second stage of the core: charges in, decisions and detections about scopes out. Read stage.py first."""
