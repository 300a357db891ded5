"""What all questions share: their processes, the way to them, what is refused, what was tried."""
