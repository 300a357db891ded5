"""What is watched: the breakpoints of each kind and where they are bound."""
