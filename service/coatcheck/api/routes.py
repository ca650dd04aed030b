"""The routes: one file per resource; each handler parses, calls one use case, renders."""

from typing import Final

from litestar.handlers import HTTPRouteHandler

from coatcheck.api.artifacts.routes import (
    delete_artifact,
    delete_session,
    get_artifact,
    get_card,
    list_artifacts,
    patch_artifact,
)
from coatcheck.api.context.routes import compact_context, get_session_usage, measure_context
from coatcheck.api.hooks.routes import claude_code_hook
from coatcheck.api.http.origin_guard import METRICS_PATH
from coatcheck.api.ingest.routes import store, store_batch, store_raw
from coatcheck.api.keys.routes import (
    create_key,
    create_namespace,
    list_keys,
    list_namespaces,
    revoke_key,
    update_namespace,
)
from coatcheck.api.policies.routes import (
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
from coatcheck.api.reading.json import read_json
from coatcheck.api.reading.passages import find_passages
from coatcheck.api.reading.routes import outline_artifact, read_artifact, search_artifact
from coatcheck.api.retention.routes import (
    apply_retention,
    audit_head,
    change_job,
    get_run,
    list_audit,
    list_runs,
    plan_retention,
    retention_status,
    undo_removal,
    verify_audit,
)
from coatcheck.api.search.routes import budget_search_results, verify_citations
from coatcheck.api.service.document import openapi_json
from coatcheck.api.service.metrics import metrics
from coatcheck.api.service.routes import live, ready
from coatcheck.api.tools.routes import call_tool, get_tools

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
    verify_audit,
    audit_head,
    live,
    ready,
    metrics,
    openapi_json,
]
CONTENT_PATH: Final = "/v1/artifacts/{artifact_id}/content"
