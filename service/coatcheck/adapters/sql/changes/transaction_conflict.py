"""What a transaction says when another replica came between two of its statements: begin again."""


class TransactionConflict(Exception):  # noqa: N818 - not an error: whoever commits tries again
    """What this transaction saw first is not so any more. It is to be undone and made again.

    Where one process alone writes it cannot be.
    """

    sqlstate = "40001"
    """What PostgreSQL itself calls it (a serialization failure), so that it is tried again as often as that."""
