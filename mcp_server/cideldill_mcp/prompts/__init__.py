"""Prompts of the protocol, and the texts they are made of."""
