"""Changes that retention runs make."""
