"""What recorded or arriving spans can be used for, and what is in the way: read `checks.py` first."""
