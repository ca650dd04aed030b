"""Coatcheck keeps bulky tool output out of a language model's context without losing it."""
