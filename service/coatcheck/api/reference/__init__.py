"""What the service says about itself: the API reference, and what an error code means."""
