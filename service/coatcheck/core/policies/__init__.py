"""Policies: how long artifacts live and how much a tenant may keep."""
