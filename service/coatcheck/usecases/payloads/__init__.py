"""Takes payloads in, describes, lists, extends and deletes them."""
