"""A meter and a tracer that do nothing, for use without telemetry."""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from coatcheck.ports.telemetry import Meter, Stage, Tracer


class _Unmetered(Meter):
    """Inherits the methods of the port Meter, which do nothing."""


class _Unnoted(Stage):
    """Inherits the methods of the port Stage, which do nothing."""


_NOTHING: Final = nullcontext(_Unnoted())


class _Untraced:
    """A tracer that collects nothing; see Tracer."""

    @property
    def on(self) -> bool:
        """Always false: nothing is collected."""
        return False

    def request(self, method: str, parent: str | None, state: str | None) -> AbstractContextManager[Stage]:  # noqa: ARG002 - as below
        """Does nothing: telemetry is off."""
        return _NOTHING

    def stage(self, name: str) -> AbstractContextManager[Stage]:  # noqa: ARG002 - ignored
        """Does nothing: telemetry is off."""
        return _NOTHING


UNMETERED: Final[Meter] = _Unmetered()
UNTRACED: Final[Tracer] = _Untraced()
