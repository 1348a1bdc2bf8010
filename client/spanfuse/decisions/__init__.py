"""What a Guard knows, and how it answers a check: from decisions as they arrive to the verdict."""
