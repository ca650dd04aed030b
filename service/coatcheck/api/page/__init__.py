"""The administrator's page: what the API does, for people with a browser."""
