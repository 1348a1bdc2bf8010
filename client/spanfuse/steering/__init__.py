"""Beyond yes and no: nudges, warnings, deadlines, cancellation, progress."""
