"""The backlog of upkeep, counted over all namespaces while reading a limited number of rows."""

from datetime import datetime
from typing import Final

from sqlalchemy import BigInteger, Connection, bindparam, func, select

from coatcheck.adapters.sql.changes.holds import is_not_held
from coatcheck.adapters.sql.tables import artifacts, blobs, usage
from coatcheck.adapters.sql.types import UtcDateTime
from coatcheck.ports.telemetry import Overdue

_MOST: Final = bindparam("most", type_=BigInteger())
_OLDEST = (
    select(artifacts.c.seq)
    .where(artifacts.c.expires_at <= bindparam("now", type_=UtcDateTime))
    .order_by(artifacts.c.expires_at)
    .limit(_MOST)
)
_EXPIRED = select(func.count(), func.min(artifacts.c.expires_at)).where(
    artifacts.c.seq.in_(_OLDEST.correlate(None)), is_not_held()
)
_BURIED = select(blobs.c.stored_size).where(blobs.c.dead_at.is_not(None)).limit(_MOST).subquery()
_DEAD = select(func.count(), func.sum(_BURIED.c.stored_size)).select_from(_BURIED)
_USED = select(func.sum(usage.c.artifacts), func.sum(usage.c.bytes))


def overdue(conn: Connection, now: datetime, limit: int) -> Overdue:
    """Answers Accounts.overdue. If `limit` held artifacts come first, expired ones after them are not seen."""
    expired, oldest = conn.execute(_EXPIRED, {"now": now, "most": limit}).one()
    dead, dead_bytes = conn.execute(_DEAD, {"most": limit}).one()
    count, size = conn.execute(_USED).one()
    return Overdue(
        expired=expired,
        oldest=oldest,
        dead=dead,
        dead_bytes=int(dead_bytes or 0),
        artifacts=int(count or 0),
        stored_bytes=int(size or 0),
    )
