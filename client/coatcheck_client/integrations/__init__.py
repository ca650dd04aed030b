"""Integrations with agent frameworks, one module each, which needs that framework to be installed."""
