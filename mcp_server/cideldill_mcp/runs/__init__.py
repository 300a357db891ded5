"""Runs of tests: started, watched, ended; what became of them, also of recorded ones."""
