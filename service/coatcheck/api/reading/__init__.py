"""Reading parts of an artifact."""
