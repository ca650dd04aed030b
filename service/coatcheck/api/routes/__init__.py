"""The routes: one file per resource; each handler parses, calls one use case, renders."""

from typing import Final

from litestar.handlers import HTTPRouteHandler

from coatcheck.api.origin_guard import METRICS_PATH
from coatcheck.api.routes.admin_decisions import (
    delete_namespace,
    explain_policies,
    list_holds,
    list_policies,
    list_usage,
    place_hold,
    release_hold,
    remove_policy,
    set_policy,
    show_policy,
)
from coatcheck.api.routes.admin_keys import (
    create_key,
    create_namespace,
    list_keys,
    list_namespaces,
    revoke_key,
    update_namespace,
)
from coatcheck.api.routes.admin_retention import (
    apply_retention,
    change_job,
    get_run,
    list_audit,
    list_runs,
    plan_retention,
    retention_status,
    undo_removal,
)
from coatcheck.api.routes.artifacts import (
    delete_artifact,
    delete_session,
    get_artifact,
    get_card,
    list_artifacts,
    patch_artifact,
)
from coatcheck.api.routes.context import compact_context, get_session_usage, measure_context
from coatcheck.api.routes.document import openapi_json
from coatcheck.api.routes.health import live, ready
from coatcheck.api.routes.hooks import claude_code_hook
from coatcheck.api.routes.ingest import store, store_batch, store_raw
from coatcheck.api.routes.json import read_json
from coatcheck.api.routes.metrics import metrics
from coatcheck.api.routes.passages import find_passages
from coatcheck.api.routes.reading import outline_artifact, read_artifact, search_artifact
from coatcheck.api.routes.search_results import budget_search_results, verify_citations
from coatcheck.api.routes.tools import call_tool, get_tools

__all__ = ["CONTENT_PATH", "METRICS_PATH", "ROUTES"]

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
    find_passages,
    read_json,
    outline_artifact,
    delete_session,
    budget_search_results,
    verify_citations,
    compact_context,
    measure_context,
    get_session_usage,
    claude_code_hook,
    get_tools,
    call_tool,
    list_keys,
    create_key,
    revoke_key,
    list_namespaces,
    create_namespace,
    update_namespace,
    delete_namespace,
    list_policies,
    show_policy,
    explain_policies,
    set_policy,
    remove_policy,
    list_holds,
    place_hold,
    release_hold,
    list_usage,
    plan_retention,
    apply_retention,
    undo_removal,
    list_runs,
    get_run,
    retention_status,
    change_job,
    list_audit,
    live,
    ready,
    metrics,
    openapi_json,
]
CONTENT_PATH: Final = "/v1/artifacts/{artifact_id}/content"
