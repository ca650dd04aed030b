"""Blob stores."""
