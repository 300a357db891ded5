"""Objects by content id: what they are called, their bytes, the files that keep them."""
