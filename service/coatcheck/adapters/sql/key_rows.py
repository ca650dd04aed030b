"""Rows of keys and namespaces, and queries on them.

A query for a key has no namespace: its answer determines the namespace.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Text, bindparam, select, tuple_

from coatcheck.adapters.sql.dialect import among
from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import keys, namespaces
from coatcheck.adapters.sql.types import Many, UtcDateTime
from coatcheck.core.keys import KeyInfo, KeyRow, NamespaceInfo

KEY_COLUMNS: list[ColumnElement[Any]] = [column for column in keys.c if column.name != "digest"]
"""The columns that `info_of` reads."""
_FIND = Prepared(
    select(*KEY_COLUMNS, keys.c.digest, namespaces.c.disabled_at)
    .join_from(keys, namespaces, namespaces.c.namespace == keys.c.namespace, isouter=True)
    .where(among(keys.c.id, bindparam("ids", type_=Many(Text()))))
)
_ANY = Prepared(select(keys.c.id).limit(1))
_PLACE = select(keys.c.created_at).where(keys.c.id == bindparam("before"))  # only within the listed namespace
_NEWEST = select(*KEY_COLUMNS).order_by(keys.c.created_at.desc(), keys.c.id.desc()).limit(bindparam("most"))
_BEHIND = tuple_(keys.c.created_at, keys.c.id) < tuple_(
    bindparam("at", type_=UtcDateTime), bindparam("before", type_=Text())
)
_NAMESPACES = (
    select(namespaces)
    .where(namespaces.c.namespace > bindparam("after"))
    .order_by(namespaces.c.namespace)
    .limit(bindparam("most"))
)


def scopes_column(scopes: Collection[str]) -> str:
    """Returns scopes as one text."""
    return " ".join(sorted(scopes))


def info_of(row: Row[Any]) -> KeyInfo:
    """Returns a key from KEY_COLUMNS."""
    return _info(tuple(row))


def _info(columns: tuple[Any, ...]) -> KeyInfo:
    key_id, namespace, name, scopes, session_prefix, created_at, expires_at, revoked_at, requests, size = columns
    return KeyInfo(
        id=key_id,
        namespace=namespace,
        name=name,
        scopes=tuple(scopes.split()),
        session_prefix=session_prefix,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        requests_per_minute=requests,
        bytes_per_minute=size,
    )


def namespace_of(row: Row[Any]) -> NamespaceInfo:
    """Returns a namespace from its row."""
    return NamespaceInfo(name=row.namespace, created_at=row.created_at, disabled_at=row.disabled_at)


def find_keys(conn: Connection, ids: Collection[str]) -> dict[str, KeyRow]:
    """Returns the keys of these IDs, and whether their namespaces are disabled."""
    result_rows = _FIND.rows(conn, {"ids": sorted(ids)})
    return {row[0]: KeyRow(_info(row[:-2]), row[-2], row[-1]) for row in result_rows}


def any_key(conn: Connection) -> bool:
    """Returns whether a key was ever created."""
    return bool(_ANY.rows(conn, {}))


def list_keys(conn: Connection, namespace: str | None, *, before: str | None, limit: int) -> list[KeyInfo]:
    """Returns keys, newest first."""
    statement, place = _NEWEST, _PLACE
    if namespace is not None:
        statement, place = (each.where(keys.c.namespace == namespace) for each in (statement, place))
    values: dict[str, Any] = {"most": limit}
    if before is not None:
        at: datetime | None = conn.execute(place, {"before": before}).scalar_one_or_none()
        if at is None:
            return []
        statement = statement.where(_BEHIND)
        values |= {"at": at, "before": before}
    return [info_of(row) for row in conn.execute(statement, values)]


def list_namespaces(conn: Connection, *, after: str, limit: int, only: str | None = None) -> list[NamespaceInfo]:
    """Returns namespaces after a name."""
    statement = _NAMESPACES if only is None else _NAMESPACES.where(namespaces.c.namespace == only)
    return [namespace_of(row) for row in conn.execute(statement, {"after": after, "most": limit})]
