"""The use cases that the HTTP interface calls, in one value that bootstrap builds."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from coatcheck.api.http.limits import RequestLimits
from coatcheck.api.http.memory_budget import MemoryBudget
from coatcheck.api.http.rates import Allowances
from coatcheck.api.http.request_log import RequestLog
from coatcheck.core.artifact import Caller
from coatcheck.ports.clock import Clock
from coatcheck.ports.telemetry import Meter, Tracer
from coatcheck.reading.view import OpenView
from coatcheck.runtime.noop_telemetry import UNMETERED, UNTRACED
from coatcheck.storing.policies import Policies
from coatcheck.upkeep.seal_key import SealKey
from coatcheck.usecases.context.compact_context import Compact
from coatcheck.usecases.context.measure_context import MeasureContext
from coatcheck.usecases.context.show_session_usage import ShowSessionUsage
from coatcheck.usecases.operations.list_events import ListEvents
from coatcheck.usecases.operations.show_overview import ShowOverview
from coatcheck.usecases.payloads.browse import Browse
from coatcheck.usecases.payloads.describe import Describe
from coatcheck.usecases.payloads.extend import Extend
from coatcheck.usecases.payloads.forget import Forget, ForgetSession
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck.usecases.reading.find_passages import FindPassages
from coatcheck.usecases.reading.outline import Outline
from coatcheck.usecases.reading.read import Read
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck.usecases.reading.search import Search
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.retention.administer_retention import AdministerRetention
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.tenants.authenticate import Authenticate
from coatcheck.usecases.tenants.empty_namespace import EmptyNamespace
from coatcheck.usecases.tenants.show_usage import ShowUsage
from coatcheck.usecases.web_search.budget_search import SearchResults
from coatcheck.usecases.web_search.verify_citations import VerifyCitations


class Tools(Protocol):
    """The tools for models, which the HTTP interface passes on without knowing them."""

    def declare(self, format_: str, *, strict: bool, listing: bool) -> list[dict[str, Any]]:
        """The tools as a provider wants them declared.

        Raises:
            CoatcheckError: `invalid_request` for a format or a variant that there is not.
        """
        ...

    async def answer(self, caller: Caller, body: object, form: str | None, max_tokens: int | None) -> object:
        """The results of the calls in a body, as JSON values.

        Raises:
            CoatcheckError: `invalid_request` when there is no call in it; what a call asks is always answered.
        """
        ...

    def mcp(self, who: Callable[[Any], Caller]) -> Any:  # noqa: ANN401 - the SDK's server; importing it takes a second
        """The MCP server. `who` tells the caller from the ASGI scope of a request."""
        ...


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What the administrator's page needs besides: reading that leaves no trace.

    What is looked at here is not counted as read by a model, and does not expire later for it.
    """

    describe: Describe
    read: Read
    search: Search
    windows: FindPassages
    read_json: ReadJson
    outline: Outline
    open_view: OpenView
    """As models read: redacted by policy."""
    stored_view: OpenView
    """Bytes as stored."""
    overview: ShowOverview
    seal_key: SealKey


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything that the routes need. The HTTP interface holds no other state."""

    ingest: Ingest
    describe: Describe
    browse: Browse
    extend: Extend
    forget: Forget
    forget_session: ForgetSession
    read: Read
    search: Search
    windows: FindPassages
    read_json: ReadJson
    outline: Outline
    open_view: OpenView
    search_results: SearchResults
    verify_citations: VerifyCitations
    compact: Compact
    measure: MeasureContext
    tell_usage: ShowSessionUsage
    events: ListEvents
    tools: Tools
    authenticate: Authenticate
    keys: AdministerKeys
    namespaces: AdministerNamespaces
    policies: Policies
    holds: Holds
    usage: ShowUsage
    empty_namespace: EmptyNamespace
    retention: AdministerRetention
    clock: Clock
    allowances: Allowances
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]]
    """The metrics in the format that an Accept field asks for, and its media type."""
    meter: Meter = UNMETERED
    tracer: Tracer = UNTRACED
    inspection: Inspection | None = None
    """None: there is no page."""
    ready: Callable[[], Awaitable[None]]
    """Returns when requests can be served; otherwise raises, saying what is missing."""


@dataclass(frozen=True)
class RouteContext:
    """What a handler is handed.

    One dependency, because Litestar starts a task group where there are several, which costs more (200 us) than
    everything else that the face does with a small request.
    """

    services: Services
    limits: RequestLimits
    budget: MemoryBudget
    log: RequestLog
    document: Callable[[], bytes]
    """The OpenAPI document."""
