"""The three kinds of store that the service runs on, each fresh and with the servers it needs."""

import contextlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from support.postgres_shared import databases
from support.s3 import shared_s3

EMBEDDED, POSTGRES, S3 = COMBOS = ("sqlite+files", "postgresql+files", "postgresql+s3")


@dataclass(frozen=True)
class Combo:
    """An empty store: what points the service at it, beside its data directory."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Credentials, as the variables that hold them."""


@contextlib.contextmanager
def fresh_combo(name: str) -> Generator[Combo]:
    """An empty, migrated store for a while; its servers are the run's own."""
    if name == EMBEDDED:
        yield Combo(name)
        return
    with databases().lent() as database:
        settings = {"database_url": database}
        if name == POSTGRES:
            yield Combo(name, settings)
            return
        server = shared_s3()
        yield Combo(name, {**settings, "blob_url": server.url()}, server.environment)
