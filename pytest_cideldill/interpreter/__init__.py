"""What we need of the interpreter, past what tests patch: clocks, files, descriptors, borders."""
