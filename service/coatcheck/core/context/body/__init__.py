"""A request body as it came: values, where they are, and how one is replaced."""
