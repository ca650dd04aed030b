"""What a provider would refuse in a history (faults.py), and the history with that mended (mend.py)."""
