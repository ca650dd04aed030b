"""Web-search responses are put on a budget, and citations verified."""
