"""Prompts of the protocol, and the texts in them."""
