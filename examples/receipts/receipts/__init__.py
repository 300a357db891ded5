"""What is printed at the till."""
