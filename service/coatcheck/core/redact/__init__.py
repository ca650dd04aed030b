"""Finds secrets by public rules and masks them in everything that a model sees."""
