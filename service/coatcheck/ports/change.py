"""Changes of the catalogue, and what commits them."""

from typing import ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from typing_extensions import override

Answer = TypeVar("Answer")
ROW_BYTES = 1024


class CatalogChange(Struct, Generic[Answer], frozen=True, kw_only=True):
    """A statement of what must become true; `Answer` is the type that its commit returns.

    A change of this base class touches rows of any namespace.
    """

    alone: ClassVar[bool] = True
    """Whether it needs a transaction of its own: it locks rows that are not known in advance, so sharing one could
    deadlock replicas."""
    deletes: ClassVar[bool] = False
    """Whether it removes artifacts, and so must respect holds."""
    takes_room: ClassVar[bool] = False
    """Whether it adds what callers send, which a full disk refuses; all else may use the reserve of space."""

    @property
    def only_namespace(self) -> str | None:
        """The only namespace whose rows it touches; None: any."""
        return None

    @property
    def weight(self) -> int:
        """Approximate number of bytes that it adds to its transaction."""
        return ROW_BYTES


class NamespaceChange(CatalogChange[Answer], frozen=True, kw_only=True):
    """A change of rows of one namespace."""

    alone: ClassVar[bool] = False

    namespace: str

    @property
    @override
    def only_namespace(self) -> str | None:
        return self.namespace


class ArtifactChange(NamespaceChange[Answer], frozen=True, kw_only=True):
    """A change of one artifact whose number is known, so its row can be locked before others."""

    number: int


class Commits(Protocol):
    """Commits changes to the catalog."""

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        """Carries out a change and returns its answer once it is durable; see the change's docstring.

        Changes may share a transaction; a failing one never affects the others.
        """
        ...
