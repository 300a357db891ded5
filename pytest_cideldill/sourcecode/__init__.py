"""Pure rules about source text and names; no live objects, no state. Both processes use them."""
