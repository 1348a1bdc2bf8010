"""What leaves the process: spans, and reports of what the Guard did."""
