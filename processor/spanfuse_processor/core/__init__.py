"""The pure core: state and call in, detections and decisions out. Read pipeline.py first."""
