"""A recorded run on disk: its lines, who writes them, how parts become one file."""
