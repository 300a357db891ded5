"""Source files of the project, and questions about them to a helper process."""
