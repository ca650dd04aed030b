"""What the service can do: one file, one verb, one transaction."""
