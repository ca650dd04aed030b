"""Which parts of a text are worth showing, and which of them fit into a budget. Knows no kind and no card."""
