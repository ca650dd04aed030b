"""Measures and compacts a model's context, and answers hooks about it."""
