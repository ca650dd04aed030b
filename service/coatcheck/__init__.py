"""Coatcheck keeps bulky tool output out of a language model's context without losing it."""

__version__ = "0.12.0"
