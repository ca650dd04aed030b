"""A function as a change of one namespace, which may share its transaction as the catalogue's own changes do."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

from sqlalchemy import Connection
from typing_extensions import override

from coatcheck.adapters.sql.change_group import FunctionChange
from coatcheck.adapters.sql.postgres import PostgresCatalog

T = TypeVar("T")


class NamespaceFunction(FunctionChange[T], frozen=True, kw_only=True):
    alone: ClassVar[bool] = False

    namespace: str

    @property
    @override
    def only_namespace(self) -> str | None:
        return self.namespace


def run_in(catalog: PostgresCatalog, namespace: str, call: Callable[[Connection], T]) -> Coroutine[Any, Any, T]:
    """Call this inside a transaction of the catalogue's writer that has entered a namespace."""
    return catalog.commit(NamespaceFunction(call=call, namespace=namespace))
