"""Objects of runs by content id, and how one is unpickled."""
