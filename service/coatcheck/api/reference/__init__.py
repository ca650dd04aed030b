"""The API reference, and the explanation of error codes."""
