"""What keeps a store in order besides requests: maintenance, the text index, keys of the store."""
