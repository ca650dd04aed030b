"""A request body as it was received: its values, their places, and how to replace a value."""
