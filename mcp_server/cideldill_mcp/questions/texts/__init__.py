"""How answers are written: texts of calls, lines alike folded, lines fitted into a size."""
