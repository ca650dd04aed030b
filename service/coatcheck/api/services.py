"""The use cases that the HTTP interface calls. The bootstrap builds them as one value."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from coatcheck.api.http.exchange import RequestLog
from coatcheck.api.http.limits import MemoryBudget, RequestLimits
from coatcheck.api.http.rates import Allowances
from coatcheck.core.artifact import Caller
from coatcheck.ports.telemetry import Clock, DeletionClock, Meter, Tracer
from coatcheck.reading.view import OpenView
from coatcheck.runtime.noop_telemetry import UNMETERED, UNTRACED
from coatcheck.storing.policies import Policies
from coatcheck.upkeep.store_binding import SealKey
from coatcheck.usecases.context.compact_context import Compact
from coatcheck.usecases.context.measure_context import MeasureContext, ShowSessionUsage
from coatcheck.usecases.operations.show_overview import CheckReadiness, ListEvents, ShowOverview
from coatcheck.usecases.payloads.browse import Browse
from coatcheck.usecases.payloads.describe import Describe
from coatcheck.usecases.payloads.extend import Extend
from coatcheck.usecases.payloads.forget import Forget, ForgetSession
from coatcheck.usecases.payloads.ingest import Ingest
from coatcheck.usecases.reading.find_passages import FindPassages
from coatcheck.usecases.reading.grep import Search
from coatcheck.usecases.reading.outline import Outline
from coatcheck.usecases.reading.read import Read
from coatcheck.usecases.reading.read_json import ReadJson
from coatcheck.usecases.retention.administer_holds import Holds
from coatcheck.usecases.retention.administer_retention import AdministerRetention
from coatcheck.usecases.tenants.administer_keys import AdministerKeys, AdministerNamespaces
from coatcheck.usecases.tenants.authenticate import Authenticate
from coatcheck.usecases.tenants.show_usage import EmptyNamespace, ShowUsage
from coatcheck.usecases.web_search.budget_search import SearchResults
from coatcheck.usecases.web_search.verify_citations import VerifyCitations


class Tools(Protocol):
    """The tools for models, which the HTTP interface passes on without interpreting them."""

    def declare(self, format_: str, *, strict: bool, listing: bool) -> list[dict[str, Any]]:
        """Returns the declarations of the tools in a provider's format.

        Args:
            format_: name of the provider's format.
            strict: whether to return the variant for the provider's strict mode.
            listing: whether to include `list_artifacts`.

        Raises:
            CoatcheckError: `invalid_request` for an unknown format, or one without a strict mode.
        """
        ...

    async def answer(self, caller: Caller, body: object, form: str | None, max_tokens: int | None) -> object:
        """Executes the tool calls in a body and returns their results as JSON values.

        `form` is the form of the results; None: each result has the form of its call. `max_tokens` limits each answer;
        None: the default.

        Raises:
            CoatcheckError: `invalid_request` if the body contains no call. A call that fails gets its error as an
                answer.
        """
        ...

    def mcp(self, who: Callable[[Any], Caller]) -> Any:  # noqa: ANN401 - the SDK's server; importing it takes a second
        """Returns a new MCP server. `who` returns the caller, given the ASGI scope of a request."""
        ...


@dataclass(frozen=True, kw_only=True)
class ReadingServices:
    """The use cases that read a stored payload."""

    describe: Describe
    read_span: Read
    search: Search
    windows: FindPassages
    read_json: ReadJson
    outline: Outline
    open_view: OpenView
    """Opens views for models, with secrets masked according to the policy."""


@dataclass(frozen=True, kw_only=True)
class Inspection(ReadingServices):
    """The use cases of the administrator's page: reads that leave no trace.

    They do not count as reads of a model, and do not extend an artifact's life.
    """

    stored_view: OpenView
    """Opens views of the bytes as they are stored."""
    seal_key: SealKey
    """Returns the store's secret, from which the secrets of cookies and forms are derived."""


@dataclass(frozen=True, kw_only=True)
class ContextServices:
    """The use cases for model requests and sessions."""

    compact: Compact
    measure: MeasureContext
    tell_usage: ShowSessionUsage
    events: ListEvents


@dataclass(frozen=True, kw_only=True)
class Services(ReadingServices, ContextServices):
    """Everything that the routes need. The HTTP interface has no state besides this and its RouteContext."""

    ingest: Ingest
    browse: Browse
    extend: Extend
    forget: Forget
    forget_session: ForgetSession
    search_results: SearchResults
    verify_citations: VerifyCitations
    overview: ShowOverview
    tools: Tools
    """The tools for models. MCP clients get the same tools."""
    authenticate: Authenticate
    keys: AdministerKeys
    namespaces: AdministerNamespaces
    policies: Policies
    holds: Holds
    usage: ShowUsage
    empty_namespace: EmptyNamespace
    retention: AdministerRetention
    clock: Clock
    deletions: DeletionClock
    """Says whether deletions by time are paused, and why."""
    allowances: Allowances
    """Rate limits by caller, counted in this process only."""
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]]
    """Returns the metrics in the format that an Accept field requests, and their media type."""
    meter: Meter = UNMETERED
    tracer: Tracer = UNTRACED
    inspection: Inspection | None = None
    """The use cases of the administrator's page; None: the page is not served."""
    readiness: CheckReadiness
    """Says whether the service can serve everything now and, if not, why."""


@dataclass(frozen=True)
class RouteContext:
    """The dependency that Litestar's handlers receive.

    Handlers have only this one dependency. For several, Litestar starts a task group, which costs 200 us: more than
    everything else that this layer does for a small request.
    """

    services: Services
    limits: RequestLimits
    """Limits of the HTTP interface."""
    budget: MemoryBudget
    """Memory for bodies that are read as a whole. All requests share it."""
    log: RequestLog
    """The log of requests. Routes use it for failures of a part of a request, such as one item of a batch."""
    document: Callable[[], bytes]
    """Returns the OpenAPI document, which is generated at the first call."""
