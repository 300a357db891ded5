"""What a question's process recorded: read from its file, and laid over the source."""
