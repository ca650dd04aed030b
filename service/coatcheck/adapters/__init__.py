"""The ports' implementations. Adapters know only the ports and the core."""
