"""The HTTP face: parse, call one use case, render."""
