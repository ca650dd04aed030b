"""Search providers' responses, brought into one shape."""
