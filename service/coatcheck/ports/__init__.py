"""What the service needs from the world. The docstrings are law: one contract suite holds every adapter to them.

A write is a *change*: a value that says what must become true, together with its fence. The catalogue decides how
many changes share one durable commit; a change that fails never fails its neighbours, and `apply` returns only
when its change is durable.
"""
