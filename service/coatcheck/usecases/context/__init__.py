"""A model's context is measured, compacted and answered for."""
