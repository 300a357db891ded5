"""A recorded run on disk: its lines, their writer, how parts become one file."""
