"""Surveys every byte of a text payload in one pass: statements, shapes, tallies, of which a card is cut."""
