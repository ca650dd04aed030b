"""Measurements, as ratios against floors and peers taken in the same run. Run with `make bench`."""
