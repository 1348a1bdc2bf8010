"""What people look at: sessions and their steps, detections, minutes; bounded, without content, written after the fact."""
