"""Payloads come in, are described, listed, kept longer and forgotten."""
