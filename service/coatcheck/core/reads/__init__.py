"""What a read may request, and the form of its answer."""
