"""What a change of the catalogue is, and who commits one."""

from typing import ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct
from typing_extensions import override

Answer = TypeVar("Answer")
ROW_BYTES = 1024


class CatalogChange(Struct, Generic[Answer], frozen=True, kw_only=True):
    """What must become true, as a value; `Answer` is what its commit returns.

    A change of this kind touches rows of any namespace.
    """

    alone: ClassVar[bool] = True
    """Whether it locks rows that nobody can name before, so that replicas could wait in a circle if it shared a
    transaction."""
    deletes: ClassVar[bool] = False
    """Whether it removes artifacts, and so meets holds."""

    @property
    def entered(self) -> str | None:
        """The only namespace whose rows it touches; None: those of any."""
        return None

    @property
    def weight(self) -> int:
        """Bytes that it adds to its transaction, roughly."""
        return ROW_BYTES


class NamespaceChange(CatalogChange[Answer], frozen=True, kw_only=True):
    """A change of rows of one namespace."""

    alone: ClassVar[bool] = False

    namespace: str

    @property
    @override
    def entered(self) -> str | None:
        return self.namespace


class ArtifactChange(NamespaceChange[Answer], frozen=True, kw_only=True):
    """A change of one artifact whose number is known, so that its row can be locked before others are."""

    number: int


class Commits(Protocol):
    """Who commits changes."""

    async def commit(self, change: CatalogChange[Answer], /) -> Answer:
        """Carry out a change and return its answer once it is durable; see the change's own docstring.

        Changes may share a transaction; one that fails never fails its neighbours.
        """
        ...
