"""Surveys every byte of a text payload in one pass: statements, shapes, tallies; `core/card` chooses from them."""
