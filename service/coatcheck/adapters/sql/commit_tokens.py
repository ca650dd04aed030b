"""Tokens by which a transaction is recognised after the answer to its commit was lost.

Each transaction writes a unique word into a row that only its connection uses. A later query first waits for that row,
so the transaction is over by then, and reads the word: it is there exactly if the transaction was committed. A
transaction's number would not do: numbers that a crash took back are reused, and would then be "committed" for another.
"""

import os
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func
from sqlalchemy.dialects.postgresql import insert

from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import writers
from coatcheck.adapters.sql.types import UtcDateTime

_MOST = 1000
"""Tokens in one row. While something keeps old versions of rows alive, such as a backup, a row that is rewritten
forever gets slower each time."""

_ROW = insert(writers).values(id=bindparam("id"), nonce=bindparam("nonce"), at=func.clock_timestamp(type_=UtcDateTime))
_LEAVE = Prepared(
    _ROW.on_conflict_do_update(
        index_elements=[writers.c.id], set_={"nonce": _ROW.excluded.nonce, "at": _ROW.excluded.at}
    )
)
# Even if there is no row: a plain query would not wait for one that is about to be inserted.
_ASK = Prepared(
    _ROW.on_conflict_do_update(index_elements=[writers.c.id], set_={"at": writers.c.at}).returning(writers.c.nonce)
)


class CommitToken(NamedTuple):
    """The token of a transaction, and its row."""

    row: str
    nonce: bytes

    def leave(self, conn: Connection) -> None:
        """Writes the token in the open transaction."""
        _LEAVE.run(conn, {"id": self.row, "nonce": self.nonce})

    def is_there(self, conn: Connection) -> bool:
        """Returns whether the token's transaction is committed; waits until it is over.

        Undo the querying transaction.
        """
        return _ASK.rows(conn, {"id": self.row, "nonce": os.urandom(16)})[0][0] == self.nonce


class CommitTokens:
    """The tokens of one connection. Each has rows of its own: nobody waits for what remains of a broken one."""

    def __init__(self) -> None:
        self._row = ""
        self._left = 0

    def next(self) -> CommitToken:
        """Returns a token that no transaction has had."""
        if not self._left:
            self._row, self._left = os.urandom(16).hex(), _MOST
        self._left -= 1
        return CommitToken(self._row, os.urandom(16))
