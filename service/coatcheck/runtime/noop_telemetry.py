"""A meter and a tracer that do nothing, for use without telemetry."""

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from coatcheck.core.artifact import Kind
from coatcheck.core.errors import Code
from coatcheck.ports.telemetry import (
    IngestOutcome,
    Job,
    JobResult,
    Meter,
    RateLimit,
    RemovedRows,
    Stage,
    StoreName,
    Tracer,
)


class _Unmetered:
    """See Meter."""

    def record_answer(self, route: str, method: str, status: int, seconds: float, received: int) -> None:
        """Does nothing: telemetry is off."""

    def problem(self, code: Code) -> None:
        """Does nothing: telemetry is off."""

    def record_limited(self, what: RateLimit) -> None:
        """Does nothing: telemetry is off."""

    def record_ingest(
        self, kind: Kind, outcome: IngestOutcome, size: int, tokens: int, card_tokens: int | None
    ) -> None:
        """Does nothing: telemetry is off."""

    def record_refusal(self, store: StoreName, code: Code) -> None:
        """Does nothing: telemetry is off."""

    def record_commit(self, changes: int, waited: float, took: float) -> None:
        """Does nothing: telemetry is off."""

    def ran(self, job: Job, result: JobResult, seconds: float) -> None:
        """Does nothing: telemetry is off."""

    def record_maintenance(self, what: RemovedRows, rows: int) -> None:
        """Does nothing: telemetry is off."""

    def record_lag(self, seconds: float) -> None:
        """Does nothing: telemetry is off."""


class _Unnoted:
    """See Stage."""

    def note(self, name: str, value: str | float) -> None:
        """Does nothing: telemetry is off."""


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
