"""Reads JSON, XML and delimited tables as far as possible, for descriptions and outlines."""
