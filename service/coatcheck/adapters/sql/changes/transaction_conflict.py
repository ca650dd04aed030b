"""The error of a transaction that another replica has interfered with: start again."""


class TransactionConflict(Exception):  # noqa: N818 - not an error: whoever commits tries again
    """What this transaction saw first is no longer true. Undo it and start again.

    It cannot happen if only one process writes.
    """

    sqlstate = "40001"
    """PostgreSQL's code for this (a serialization failure), so that it is retried as often as that."""
