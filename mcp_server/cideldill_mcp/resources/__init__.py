"""Resources of the protocol: their texts, and the notifications of their changes."""
