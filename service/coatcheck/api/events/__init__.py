"""What was done with artifacts and in sessions."""
