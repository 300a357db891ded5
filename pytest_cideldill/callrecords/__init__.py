"""Recorded calls: what is recorded, a call that is running, the event of one."""
