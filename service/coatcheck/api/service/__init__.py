"""Health, metrics and the OpenAPI document."""
