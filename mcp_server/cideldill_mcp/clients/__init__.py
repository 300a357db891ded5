"""Clients: who is connected, what each was told, pushes."""
