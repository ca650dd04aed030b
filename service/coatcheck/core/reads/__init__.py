"""What a read may ask for, and the shape of its answer."""
