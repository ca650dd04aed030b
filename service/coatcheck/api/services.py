"""The use cases that the HTTP interface calls, in one value that bootstrap builds."""

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
        """Returns the tools, declared in a provider's format.

        Raises:
            CoatcheckError: `invalid_request` for an unknown format or variant.
        """
        ...

    async def answer(self, caller: Caller, body: object, form: str | None, max_tokens: int | None) -> object:
        """Returns the results of the calls in a body, as JSON values.

        Raises:
            CoatcheckError: `invalid_request` if it contains no call; the calls themselves always get an answer.
        """
        ...

    def mcp(self, who: Callable[[Any], Caller]) -> Any:  # noqa: ANN401 - the SDK's server; importing it takes a second
        """Returns the MCP server. `who` returns the caller, given the ASGI scope of a request."""
        ...


@dataclass(frozen=True, kw_only=True)
class ReadingServices:
    """The use cases that show a stored payload."""

    describe: Describe
    read_span: Read
    search: Search
    windows: FindPassages
    read_json: ReadJson
    outline: Outline
    open_view: OpenView
    """Opens views as models read them: masked according to policy."""


@dataclass(frozen=True, kw_only=True)
class Inspection(ReadingServices):
    """What the administrator's page needs in addition: reading that leaves no trace.

    Such reads do not count as a model's, and do not extend an artifact's life.
    """

    stored_view: OpenView
    """Opens bytes as stored."""
    seal_key: SealKey
    """Returns the secret of the store from which those of cookies and forms are derived."""


@dataclass(frozen=True, kw_only=True)
class ContextServices:
    """The use cases for model requests and sessions."""

    compact: Compact
    measure: MeasureContext
    tell_usage: ShowSessionUsage
    events: ListEvents


@dataclass(frozen=True, kw_only=True)
class Services(ReadingServices, ContextServices):
    """Everything that the routes need. The HTTP interface has no other state. `open_view` opens bytes as stored."""

    ingest: Ingest
    browse: Browse
    extend: Extend
    forget: Forget
    forget_session: ForgetSession
    search_results: SearchResults
    verify_citations: VerifyCitations
    overview: ShowOverview
    tools: Tools
    """The tools for models, which MCP clients see too."""
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
    """Says whether anything is deleted by time now."""
    allowances: Allowances
    """Rate limits by caller, counted in this process only."""
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]]
    """Returns the metrics in the format that an Accept field requests, and their media type."""
    meter: Meter = UNMETERED
    tracer: Tracer = UNTRACED
    inspection: Inspection | None = None
    """None: the page is not served."""
    readiness: CheckReadiness
    """Says what cannot be served now, and why."""


@dataclass(frozen=True)
class RouteContext:
    """The dependency that handlers receive.

    It is only one, because Litestar starts a task group if there are several, which costs more (200 us) than everything
    else that this layer does for a small request.
    """

    services: Services
    limits: RequestLimits
    """Bounds of what a request may send."""
    budget: MemoryBudget
    """Memory for bodies that are held whole, shared by all requests."""
    log: RequestLog
    """Also logs what fails within a request that is answered, such as one item of a batch."""
    document: Callable[[], bytes]
    """Returns the OpenAPI document, made at the first call."""
