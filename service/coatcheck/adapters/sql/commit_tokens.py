"""Marks by which a transaction is known again after the answer to its commit was lost.

Each transaction writes a word that nobody else has into a row that only its connection uses. Whoever asks afterwards
waits for that row, so that the transaction is over by then, and reads the word: it is there exactly if the transaction
is. A transaction's number cannot say so: numbers that a crash took back are given out again, and then it is
"committed" in another's name.
"""

import os
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func
from sqlalchemy.dialects.postgresql import insert

from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import writers
from coatcheck.adapters.sql.types import UtcDateTime

_MOST = 1000
"""Marks in one row. While something keeps old versions of rows alive, a backup say, a row that is rewritten for ever
gets slower with each time."""

_ROW = insert(writers).values(id=bindparam("id"), nonce=bindparam("nonce"), at=func.clock_timestamp(type_=UtcDateTime))
_LEAVE = Prepared(
    _ROW.on_conflict_do_update(
        index_elements=[writers.c.id], set_={"nonce": _ROW.excluded.nonce, "at": _ROW.excluded.at}
    )
)
# Also where there is no row: a plain question would not wait for one that is about to be there.
_ASK = Prepared(
    _ROW.on_conflict_do_update(index_elements=[writers.c.id], set_={"at": writers.c.at}).returning(writers.c.nonce)
)


class CommitToken(NamedTuple):
    """What a transaction leaves, and where."""

    row: str
    nonce: bytes

    def leave(self, conn: Connection) -> None:
        """Write it into the transaction that is open."""
        _LEAVE.run(conn, {"id": self.row, "nonce": self.nonce})

    def is_there(self, conn: Connection) -> bool:
        """Whether the transaction that left it is committed. Waits until it is over; the asker's is to be undone."""
        return _ASK.rows(conn, {"id": self.row, "nonce": os.urandom(16)})[0][0] == self.nonce


class CommitTokens:
    """The marks of one connection. Another one has rows of its own: nobody waits for what is left of a broken one."""

    def __init__(self) -> None:
        self._row = ""
        self._left = 0

    def next(self) -> CommitToken:
        """A mark that no transaction has had."""
        if not self._left:
            self._row, self._left = os.urandom(16).hex(), _MOST
        self._left -= 1
        return CommitToken(self._row, os.urandom(16))
