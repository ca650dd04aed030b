"""Background work that starts by itself."""
