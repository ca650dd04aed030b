"""Text as bytes: lines, safe cuts, excerpts, inertness."""
