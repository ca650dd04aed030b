"""Lines by a regular expression, over any text in constant memory."""
