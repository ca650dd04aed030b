"""What keeps a store in order beside requests: rounds of maintenance, the text index, keys of the store."""
