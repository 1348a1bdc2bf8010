"""One table per span dialect."""
