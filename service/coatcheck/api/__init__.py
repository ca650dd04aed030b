"""The HTTP interface: parses a request, calls one use case, renders the answer."""
