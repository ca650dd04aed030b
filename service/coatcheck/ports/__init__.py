"""What the service needs from the world. The docstrings are binding: one contract suite holds every adapter to them.

A write is a *change* (`decisions.py`): a value that states what must become true, and on which condition (its fence).
`commit(change)` returns the change's answer when it is durable. The catalogue decides how many changes share one
commit; a failing change never affects the others. Queries are methods of the ports.
"""
