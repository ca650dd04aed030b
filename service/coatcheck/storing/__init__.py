"""What storing a payload takes, and finding it again: mechanisms that use cases share."""
