"""The whole service in this process at an hour that the test decides, on every database, with keys of some tenants."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from coatcheck.api.app import Face, create_app
from coatcheck.api.services import Services
from coatcheck.bootstrap import open_service
from coatcheck.core.artifact import Caller
from coatcheck.settings import Settings
from support.clock import HandClock
from support.postgres_shared import databases

DATABASES = ("sqlite", "postgresql")
SCOPES = ("ingest", "read", "delete", "admin")
URL = "http://localhost:8321"


@dataclass(frozen=True)
class House:
    """A running service."""

    services: Services
    clock: HandClock
    root: Path
    transport: httpx.ASGITransport
    clients: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def key(
        self,
        namespace: str,
        scopes: Sequence[str] = SCOPES,
        *,
        session_prefix: str | None = None,
        life: timedelta | None = None,
    ) -> tuple[str, str]:
        """A new key: its ID and its text."""
        info, secret = await self.services.keys.create(
            Caller(name="tester"),
            namespace=namespace,
            name=f"key of {namespace}",
            scopes=tuple(scopes),
            session_prefix=session_prefix,
            life=life,
        )
        return info.id, secret.reveal()

    async def client(self, text: str | None) -> httpx.AsyncClient:
        """A client that presents a key."""
        headers = {} if text is None else {"authorization": f"Bearer {text}"}
        client = httpx.AsyncClient(transport=self.transport, base_url=URL, headers=headers)
        return await self.clients.enter_async_context(client)

    async def tenant(
        self,
        namespace: str,
        scopes: Sequence[str] = SCOPES,
        **terms: Any,  # noqa: ANN401 - as `key`
    ) -> httpx.AsyncClient:
        """A client with a new key of a namespace."""
        return await self.client((await self.key(namespace, scopes, **terms))[1])


@contextlib.asynccontextmanager
async def open_house(root: Path, database: str) -> AsyncGenerator[House]:
    """A service on an empty store."""
    with contextlib.ExitStack() as stack:
        url = "" if database == "sqlite" else stack.enter_context(databases().lent())
        settings = Settings(
            data=str(root / "data"),
            database_url=url,
            extract_workers=0,
            threads=2,
            sweep_seconds=86400,
            inline_bytes=0,  # every payload is a file, which a test can take away
        )
        (root / "data").mkdir(exist_ok=True)
        clock = HandClock()
        async with open_service(settings, clock=clock) as running:
            app = create_app(running.services, running.limits)
            async with _alive(app):
                harness = House(running.services, clock, root / "data", httpx.ASGITransport(app))
                async with harness.clients:
                    yield harness


@contextlib.asynccontextmanager
async def _alive(app: Face) -> AsyncGenerator[None]:
    """An application between its start and its end, both in one task: a fixture may be left in another."""
    started, ending = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            started.set()
            await ending.wait()

    life = asyncio.create_task(live())
    await started.wait()
    try:
        yield
    finally:
        ending.set()
        await life
