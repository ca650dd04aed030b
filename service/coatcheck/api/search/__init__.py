"""Web searches within a budget, and citations."""
