"""Budgeted web searches: any provider's response in, what a model should read of it out.

`normalise` (responses/normalise.py) reads a response, `lay_out` (view.py) makes its text view, `budget_search`
(budget.py) cuts what is shown this turn, `summarise` (summary.py) what is kept for later turns; `search_view` is the
view to store. Pure: the same response, query and limits always give the same bytes.
"""
