"""Results: their keys, what goes into them, and where they are kept."""
