"""What can be wrong with one of several replicas, or with how it uses PostgreSQL and S3; see injected_faults.py.

`all-lead` and `slow-burial` are no controls but worlds.

no-durable         commits are as durable as the database server's default says
no-shelter         what is said to wait for storage is not kept
deaf-s3            the S3 store does not hear that a blob could not be finished
all-lead           every replica tidies, whoever has the lease
slow-burial        PostgreSQL takes most of a second between finding what has expired and burying it
no-row-lock        what has expired is not locked before it is buried
own-clock          the replica goes by its own clock, not by the database's
"""

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, text

from coatcheck.adapters.blobs.s3 import S3Writer
from coatcheck.adapters.sql import postgres_connection
from coatcheck.adapters.sql.changes import tombstone
from coatcheck.adapters.sql.postgres_pool import DatabaseClock
from coatcheck.adapters.system import SystemClock
from coatcheck.bootstrap import foundation
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.maintenance import Upkeep
from coatcheck.ports.telemetry import Clock
from coatcheck.storing.fallback_buffer import FallbackBuffer
from coatcheck.upkeep.maintenance import LeaderLease, maintenance_lease


def _always(*_: object) -> bool:
    return True


async def _yes(*_: object) -> bool:
    return True


def _no_durable() -> None:
    assert hasattr(postgres_connection, "_DURABLE")
    setattr(postgres_connection, "_DURABLE", "SELECT 1")  # noqa: B010


def _no_shelter() -> None:
    assert hasattr(FallbackBuffer, "keep")
    setattr(FallbackBuffer, "keep", _always)  # noqa: B010


def _deaf_s3() -> None:
    finish = S3Writer.finish

    async def deaf(self: S3Writer) -> None:
        with contextlib.suppress(CoatcheckError):
            await finish(self)

    setattr(S3Writer, "finish", deaf)  # noqa: B010


def named(name: str) -> None:
    """Have the replica be called so among those that tidy."""

    def lease(upkeep: Upkeep, clock: Clock, holder: str, pause: float) -> LeaderLease:  # noqa: ARG001 - as the real one
        return maintenance_lease(upkeep, clock, name, pause)

    assert getattr(foundation, "maintenance_lease") is maintenance_lease  # noqa: B009
    setattr(foundation, "maintenance_lease", lease)  # noqa: B010


def _all_lead() -> None:
    assert hasattr(LeaderLease, "lead")
    setattr(LeaderLease, "lead", _yes)  # noqa: B010


def _slow_burial() -> None:
    real: Callable[..., int] = getattr(tombstone, "tombstone")  # noqa: B009

    def slowly(conn: Connection, *arguments: object) -> int:
        conn.execute(text("SELECT pg_sleep(0.8)"))
        return real(conn, *arguments)

    setattr(tombstone, "tombstone", slowly)  # noqa: B010


def _no_row_lock() -> None:
    real: Select[Any] = getattr(tombstone, "_EXPIRED")  # noqa: B009
    wrong = real.with_for_update()
    setattr(wrong, "_for_update_arg", None)  # noqa: B010
    setattr(tombstone, "_EXPIRED", wrong)  # noqa: B010


def _own_clock() -> None:
    clock = SystemClock()

    def now(_: object) -> datetime:
        return clock.now()

    setattr(DatabaseClock, "now", now)  # noqa: B010


SCALE: dict[str, Callable[[], None]] = {
    "no-durable": _no_durable,
    "no-shelter": _no_shelter,
    "deaf-s3": _deaf_s3,
    "all-lead": _all_lead,
    "slow-burial": _slow_burial,
    "no-row-lock": _no_row_lock,
    "own-clock": _own_clock,
}
