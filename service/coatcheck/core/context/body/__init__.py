"""A request body as it came: its values, their places, and how to replace one."""
