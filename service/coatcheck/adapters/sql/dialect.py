"""Functions and column types that have the same meaning on SQLite and PostgreSQL, but are written differently in SQL.

Also PostgreSQL's URLs, and the parameters that many statements share.
"""

import json
import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    DateTime,
    Dialect,
    Integer,
    Text,
    and_,
    bindparam,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeDecorator, TypeEngine
from typing_extensions import override

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The moment that SQLite stores as 0."""
_LAST = datetime.max.replace(tzinfo=UTC)
"""The last moment of the year 9999, after which Python has no moments."""


def microseconds(moment: datetime) -> int:
    """Returns a moment as the exact number of microseconds since 1970. Raises TypeError for a naive datetime."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime to the microsecond: an integer on SQLite, timestamptz on PostgreSQL.

    SQLite has no type for times. Texts would have no time zone, and texts of different formats would not sort by time.
    A later moment than the year 9999 has, which SQLite's integer may be, is read as the last one of that year.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    @override
    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(BigInteger())
        return dialect.type_descriptor(DateTime(timezone=True))

    @override
    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return microseconds(value)

    @override
    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name != "sqlite":
            return value
        try:
            return _EPOCH + timedelta(microseconds=value)
        # Releases before 0.11 stored the end of a hold with any offset from UTC. PostgreSQL's driver refused these.
        except OverflowError:
            return _LAST


class Many(TypeDecorator[Collection[Any]]):
    """Many values as one parameter, so that a statement's text does not depend on their number.

    The parameter is an array on PostgreSQL, and a JSON array on SQLite. The values are numbers or texts; see `among`.
    """

    impl = Text()
    cache_ok = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        """Creates a type for values of the type `item`."""
        super().__init__()
        self.item = item

    @override
    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else ARRAY(self.item))

    @override
    def process_bind_param(self, value: Collection[Any] | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        # `json_each` takes the array apart again inside the statement: see `among`.
        return json.dumps(list(value)) if dialect.name == "sqlite" else list(value)


RowNumber = BigInteger().with_variant(Integer, "sqlite")
"""The type of row numbers, which grow in the order in which rows are added. On SQLite, a primary key is the rowid
itself only if its type is INTEGER."""


# SQLite's compiler writes PostgreSQL's ON CONFLICT in the same way, so one statement serves both databases.
upsert = postgresql.insert


class has_label(GenericFunction[bool]):  # noqa: N801 - SQLAlchemy's functions are spelled as in SQL
    """True if the second argument is an element of the first argument, which is a JSON array as text."""

    type = Boolean()
    inherit_cache = True


class among(GenericFunction[bool]):  # noqa: N801 - as above
    """True if the first argument is one of the values in the second argument, a parameter of type `Many`."""

    type = Boolean()
    inherit_cache = True

    @override
    def self_group(self, against: OperatorType | None = None) -> Any:
        # Without this, SQLAlchemy would append `= 1` on SQLite, which prevents the use of an index.
        return self


class contains_text(GenericFunction[bool]):  # noqa: N801 - as above
    """True if the first text contains the second text. Case matters, unlike in SQLite's LIKE."""

    type = Boolean()
    inherit_cache = True


class by_now(GenericFunction[Any]):  # noqa: N801 - as above
    """Returns a moment, or the database's time if it is earlier, so that a replica with a wrong clock deletes nothing.

    On SQLite, always returns the moment, because the database has no clock of its own.
    """

    type = UtcDateTime()
    inherit_cache = True


class database_time(GenericFunction[Any]):  # noqa: N801 - as above
    """Returns the database's time, so that all replicas use one clock; on SQLite, the argument, the caller's time."""

    type = UtcDateTime()
    inherit_cache = True


_SPELLINGS: Final = {
    # An artifact without labels has NULL in this column, for which `json_each` returns no rows.
    has_label: (
        "EXISTS (SELECT 1 FROM json_each({0}) AS each WHERE each.value = {1})",
        "jsonb_exists(CAST({0} AS jsonb), {1})",
    ),
    # The subquery does not depend on the row, so that an index on the value can serve the condition.
    among: ("{0} IN (SELECT value FROM json_each({1}))", "{0} = ANY ({1})"),
    contains_text: ("(instr({0}, {1}) > 0)", "(strpos({0}, {1}) > 0)"),
    # A subquery is evaluated once, so an index serves the comparison although the function is volatile.
    by_now: ("{0}", "(SELECT LEAST({0}, clock_timestamp()))"),
    database_time: ("{0}", "clock_timestamp()"),
}
"""SQL of the functions above on SQLite and PostgreSQL. All arguments are compiled clauses: columns and parameters."""


def _spell(template: str, element: GenericFunction[Any], compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - as SQLAlchemy
    # If the template uses no argument, none is compiled, because a compiled argument would count as a parameter.
    return template.format(*(compiler.process(clause, **options) for clause in element.clauses if "{" in template))


for _function, (_sqlite, _postgresql) in _SPELLINGS.items():
    compiles(_function, "sqlite")(partial(_spell, _sqlite))
    compiles(_function, "postgresql")(partial(_spell, _postgresql))


def bind_seqs(name: str = "seqs") -> BindParameter[Any]:
    """Returns a parameter that takes many row numbers, for `among`."""
    return bindparam(name, type_=Many(BigInteger()))


def equal(*columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Returns the condition that each column has the value of the parameter that has the column's name."""
    return and_(*(column == bindparam(column.name, type_=column.type) for column in columns))


NAMESPACE: Final = bindparam("namespace", type_=Text())
NOW: Final = bindparam("now", type_=UtcDateTime)
"""The time of the change or query, which decides whether rows are live or expired."""
BEFORE: Final = bindparam("before", type_=UtcDateTime)
LIMIT: Final = bindparam("limit", type_=BigInteger())
OLD: Final = by_now(NOW) - (NOW - BEFORE)
"""`:before`, made earlier by as much as `:now` is ahead of the database's clock, so that a replica whose clock is ahead
deletes nothing early."""


_HIDDEN: Final = "***"
_SECRET: Final = re.compile("pass|key|secret|token|service")
"""Matches names of secret options: `password`, `passfile`, `sslpassword`, `sslkey`, `servicefile` and the like."""


def is_postgres(url: str) -> bool:
    """Returns whether a URL names a PostgreSQL database."""
    # libpq accepts `postgres` too; `postgresql+asyncpg` is how SQLAlchemy spells it.
    return url.partition(":")[0] in {"postgresql", "postgres", "postgresql+asyncpg"}


def plain_url(url: str) -> str:
    """Returns the URL in the form that libpq and asyncpg read. Its hosts and options are not changed."""
    # Neither libpq nor asyncpg knows SQLAlchemy's `+asyncpg`.
    return f"postgresql:{url.partition(':')[2]}"


def mask_url(url: str) -> str:
    """Returns the URL for messages: without its password, and without values of options that may lead to a secret."""
    head, mark, query = plain_url(url).partition("?")
    scheme, _, rest = head.partition("//")
    # The last `@` is the separator, because a password may contain an `@` that was not escaped.
    user, at, place = rest.rpartition("@")
    if not at and "@" in query:
        return f"{scheme}//{_HIDDEN}"  # it may be a password with an unescaped question mark
    # The first colon is the separator, because a role's name has no colon, but a password may have one.
    name, colon, _ = user.partition(":")
    # An option's name may be percent-encoded too, so it is decoded before it is compared.
    options = [
        f"{key}={_HIDDEN}" if equals and _SECRET.search(unquote(key).lower()) else key + equals + value
        for key, equals, value in (option.partition("=") for option in query.split("&"))
    ]
    return f"{scheme}//{name}{colon}{_HIDDEN if colon else ''}{at}{place}{mark}{'&'.join(options)}"
