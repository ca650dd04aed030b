"""HTTP itself: bodies and their codings, digests, ranges, limits, problems and access."""
