"""Artifacts: look them up, change how long they are kept, delete them."""
