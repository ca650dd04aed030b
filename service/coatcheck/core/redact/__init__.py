"""Secrets: found by public rules, and masked in everything that a model sees."""
