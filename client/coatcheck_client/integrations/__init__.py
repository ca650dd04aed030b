"""Integrations with agent frameworks. Each framework has one module, which needs that framework installed."""
