"""All routes of the service, collected from the resources. A new resource is added here; a new route is not."""

from typing import Final

from coatcheck.api.artifacts import routes as artifacts
from coatcheck.api.audit import routes as audit
from coatcheck.api.content import routes as content
from coatcheck.api.context import routes as context
from coatcheck.api.events import routes as events
from coatcheck.api.holds import routes as holds
from coatcheck.api.hooks import routes as hooks
from coatcheck.api.ingest import routes as ingest
from coatcheck.api.keys import routes as keys
from coatcheck.api.namespaces import routes as namespaces
from coatcheck.api.policies import routes as policies
from coatcheck.api.reading import routes as reading
from coatcheck.api.reference import routes as reference
from coatcheck.api.retention import routes as retention
from coatcheck.api.route import Route, routes_of
from coatcheck.api.search import routes as search
from coatcheck.api.service import routes as service
from coatcheck.api.sessions import routes as sessions
from coatcheck.api.tools import routes as tools

ROUTES: Final[list[Route]] = routes_of(
    ingest,
    artifacts,
    reading,
    content,
    sessions,
    events,
    search,
    context,
    hooks,
    tools,
    keys,
    namespaces,
    policies,
    holds,
    retention,
    audit,
    service,
    reference,
)
