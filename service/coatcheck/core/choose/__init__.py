"""Chooses which parts of a text are worth showing, and which of them fit into a budget.

Independent of kinds and cards.
"""
