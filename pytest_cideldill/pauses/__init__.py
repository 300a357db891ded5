"""Parked threads: where they park, what is reported of them, what a client does with one."""
