"""An artifact's bytes, with ranges and conditions."""
