"""A meter and a tracer that do nothing, for use without telemetry."""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from coatcheck.ports.telemetry import Meter, Stage, Tracer


class _Unmetered(Meter):
    """Inherits the port's methods, which do nothing."""


class _Unnoted(Stage):
    """Likewise."""


_NOTHING: Final = nullcontext(_Unnoted())


class _Untraced:
    """See Tracer."""

    @property
    def on(self) -> bool:
        """Always false: nothing is collected."""
        return False

    def request(self, method: str, parent: str | None, state: str | None) -> AbstractContextManager[Stage]:  # noqa: ARG002 - as below
        """Does nothing: telemetry is off."""
        return _NOTHING

    def stage(self, name: str) -> AbstractContextManager[Stage]:  # noqa: ARG002 - nobody wants to know
        """Does nothing: telemetry is off."""
        return _NOTHING


UNMETERED: Final[Meter] = _Unmetered()
UNTRACED: Final[Tracer] = _Untraced()
