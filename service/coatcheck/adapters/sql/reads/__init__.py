"""Queries to the catalogue that change nothing."""
