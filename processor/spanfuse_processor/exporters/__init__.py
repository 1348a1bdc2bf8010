"""Where outcomes go."""
