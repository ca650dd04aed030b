"""One adapter for each wire format: a body in, an index out. Each knows shapes and nothing of policies."""
