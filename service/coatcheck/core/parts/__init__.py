"""What a payload is made of: from its bytes, through charset and envelope, to the text that is read."""
