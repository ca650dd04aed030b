"""Budgeted web searches: makes what a model should read from any provider's response.

`normalise` (responses/normalise.py) reads a response, `lay_out` (view.py) makes its text view, `budget_search`
(budget.py) cuts it to what is shown this turn, `summarise` (summary.py) writes what stays for later turns, and
`search_view` makes the view to store. Pure: the same response, query and limits always give the same bytes.
"""
