"""Chooses which parts of a text are worth showing and fit into a budget, independent of kinds and cards."""
