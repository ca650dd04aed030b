"""The use cases that the HTTP face calls, in one value that bootstrap builds."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from coatcheck.api.journal import Journal
from coatcheck.api.limits import Limits
from coatcheck.api.room import Budget
from coatcheck.ports import Clock
from coatcheck.usecases.browse import Browse
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.describe import Describe
from coatcheck.usecases.extend import Extend
from coatcheck.usecases.find import Find
from coatcheck.usecases.forget import Forget, ForgetSession
from coatcheck.usecases.ingest import Ingest
from coatcheck.usecases.read import Read
from coatcheck.usecases.search import Search


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything that the routes need. The face holds no other state."""

    ingest: Ingest
    describe: Describe
    browse: Browse
    extend: Extend
    forget: Forget
    forget_session: ForgetSession
    read: Read
    search: Search
    find: Find
    open_content: OpenContent
    clock: Clock
    ready: Callable[[], Awaitable[None]]
    """Returns when requests can be served; otherwise raises, saying what is missing."""


@dataclass(frozen=True)
class Desk:
    """What a handler is handed.

    One dependency, because Litestar starts a task group where there are several, which costs more (200 us) than
    everything else that the face does with a small request.
    """

    services: Services
    limits: Limits
    budget: Budget
    journal: Journal
    document: Callable[[], bytes]
    """The OpenAPI document."""
