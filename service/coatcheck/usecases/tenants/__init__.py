"""Keys, namespaces and what they use."""
