"""Surveys every byte of a text payload in one pass: statements, shapes, records; `core/card` chooses from them."""
