"""Finds what a provider would refuse in a history (faults.py), and mends it (mend.py)."""
