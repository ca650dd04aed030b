"""The routes: one file per resource; each handler parses, calls one use case, renders."""

from typing import Final

from litestar.handlers import HTTPRouteHandler

from coatcheck.api.routes.artifacts import (
    delete_artifact,
    delete_session,
    get_artifact,
    get_card,
    list_artifacts,
    patch_artifact,
)
from coatcheck.api.routes.document import openapi_json
from coatcheck.api.routes.health import live, ready
from coatcheck.api.routes.ingest import store, store_batch, store_raw
from coatcheck.api.routes.json import read_json
from coatcheck.api.routes.reading import outline_artifact, read_artifact, search_artifact
from coatcheck.api.routes.search_results import budget_search_results, verify_citations
from coatcheck.api.routes.tools import call_tool, get_tools
from coatcheck.api.routes.windows import find_windows

ROUTES: Final[list[HTTPRouteHandler]] = [
    store,
    store_raw,
    store_batch,
    list_artifacts,
    get_artifact,
    patch_artifact,
    delete_artifact,
    get_card,
    read_artifact,
    search_artifact,
    find_windows,
    read_json,
    outline_artifact,
    delete_session,
    budget_search_results,
    verify_citations,
    get_tools,
    call_tool,
    live,
    ready,
    openapi_json,
]
CONTENT_PATH: Final = "/v1/artifacts/{artifact_id}/content"
