"""Model requests: compacting and measuring them."""
