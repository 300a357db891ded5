"""The transports: stdio, HTTP, and the check of each HTTP request."""
