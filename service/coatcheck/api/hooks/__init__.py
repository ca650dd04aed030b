"""Hooks of agents' hosts."""
