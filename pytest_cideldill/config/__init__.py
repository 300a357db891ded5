"""What users choose: options, settings, limits; and the start of a server in the place of a run."""
