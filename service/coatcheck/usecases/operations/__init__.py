"""Checks the service's own health and the stored bytes."""
