"""Mechanisms for reading an artifact, which use cases share: views, positions, sources."""
