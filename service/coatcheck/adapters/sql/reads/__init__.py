"""Questions to the catalogue that change nothing."""
