"""What a payload is, and what its kind deserves to show."""
