"""Plain data to one text of a bounded size."""
