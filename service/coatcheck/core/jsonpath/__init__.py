"""Reads JSON by path: RFC 9535 queries and RFC 6901 pointers over documents of any size, in bounded memory."""
