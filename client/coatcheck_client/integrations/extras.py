"""Says how to install the framework of an integration where it is not there, or another release than is needed."""

from types import TracebackType
from typing import final


@final
class NeededExtra:
    """A `with` block around the imports of a framework."""

    def __init__(self, name: str) -> None:
        """Takes the name of the client's extra that installs the framework."""
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Replaces the error of an import.

        Raises:
            ImportError: with the command that installs what is missing.
        """
        if not isinstance(error, ImportError):
            return
        raise ImportError(
            f"This integration needs its extra: pip install 'coatcheck-client[{self._name}]' ({error}).",
            name=error.name,
            path=error.path,
        ) from error
