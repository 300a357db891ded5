"""Resources of the protocol: debugger:// and sources, and their changes."""
