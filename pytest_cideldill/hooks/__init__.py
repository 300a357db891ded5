"""pytest's hooks in a run that is watched or recorded."""
