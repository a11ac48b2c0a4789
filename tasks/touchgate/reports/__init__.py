"""What a run tells: to a terminal, to files, to a forge."""
