"""All routes of the service, collected from the modules that declare them. A new module of routes is added here."""

from typing import Final

from coatcheck.api import (
    artifacts,
    audit,
    content,
    context,
    events,
    holds,
    hooks,
    keys,
    namespaces,
    policies,
    reading,
    retention,
    service,
    sessions,
    tools,
    web_search,
)
from coatcheck.api.ingest import routes as ingest
from coatcheck.api.reference import routes
from coatcheck.api.route import Route, routes_of

ROUTES: Final[list[Route]] = routes_of(
    ingest,
    artifacts,
    reading,
    content,
    sessions,
    events,
    web_search,
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
    routes,
)
