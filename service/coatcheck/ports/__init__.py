"""What the service needs from the world. The docstrings are law: one contract suite holds every adapter to them.

A write is a *change* (`change.py`): a value that says what must become true, together with its fence. `commit(change)`
returns the change's answer when it is durable. The catalogue decides how many changes share one commit; a change that
fails never fails its neighbours. Questions are methods of the ports.
"""
