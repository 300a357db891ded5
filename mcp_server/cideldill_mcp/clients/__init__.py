"""Clients: their sessions, the stops and hits that each was sent, pushes."""
