"""Agents' frameworks, each in a module of its own, which needs that framework to be installed."""
