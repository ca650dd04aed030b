"""Model requests: made smaller, measured."""
