"""Column types that mean the same on every database."""

import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ARRAY, BigInteger, DateTime, Dialect, Integer, Text
from sqlalchemy.types import TypeDecorator, TypeEngine
from typing_extensions import override

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Returns microseconds since 1970, exactly. Raises for a naive datetime."""
    return (moment - _EPOCH) // _MICROSECOND


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime to the microsecond: an integer on SQLite, timestamptz on PostgreSQL.

    SQLite has no type for time, and its text form is naive and does not sort across formats.
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
        return _EPOCH + timedelta(microseconds=value)


class Many(TypeDecorator[Collection[Any]]):
    """Many values as one parameter, so that a statement's text does not depend on their number.

    An array on PostgreSQL, a JSON array on SQLite. For numbers and text; see `among`.
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
        return json.dumps(list(value)) if dialect.name == "sqlite" else list(value)


RowNumber = BigInteger().with_variant(Integer, "sqlite")
"""A row's number in arrival order. On SQLite, only INTEGER makes a primary key the row's own address."""
