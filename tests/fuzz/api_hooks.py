"""What schemathesis needs to know of a service beside its OpenAPI document: keys, and an artifact that exists.

It is loaded by schemathesis (`api_fuzz.py` starts it), in its process.
"""
# pyright: reportUnknownMemberType=false
# schemathesis leaves type arguments out

import json
import os
import re
from typing import Any, Final

import schemathesis
from schemathesis import AuthContext, Case, HookContext

STATE: Final[dict[str, Any]] = json.loads(os.environ["COATCHECK_FUZZ"])  # noqa: TID251 - the only way into its process
FOR_ALL: Final = {"/metrics", "/v1/admin/namespaces", "/v1/admin/retention/status", "/v1/admin/retention/jobs/{name}"}
"""What only the key of all namespaces may do, besides what is about a namespace."""
SOME_ID: Final = re.compile(r"art_[0-9]{17}[0-4]")
"""Half of the IDs that schemathesis makes up."""


@schemathesis.auth(refresh_interval=None)
class KeyForOperation:
    """The key that an operation needs: the tenant's, or that of all namespaces where the request names one."""

    def get(self, case: Case[Any], context: AuthContext) -> str:
        """The key, by the scope that the document gives the operation."""
        definition: dict[str, Any] = context.operation.definition.raw
        if definition.get("x-scope") != "admin":
            return STATE["keys"]["tenant"]
        body = case.body if isinstance(case.body, dict) else {}
        for_all = case.path in FOR_ALL or "namespace" in {*case.query, *case.path_parameters, *body}
        return STATE["keys"]["everything" if for_all else "tenant"]

    def set(self, case: Case[Any], data: str, context: AuthContext) -> None:  # noqa: ARG002 - as schemathesis calls it
        """Put the key into the request."""
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:  # noqa: ARG001
    """Half of the made-up artifacts become the one that exists; what would end it is done to another."""
    given = case.path_parameters
    if case.method not in {"DELETE", "PATCH"} and SOME_ID.fullmatch(str(given.get("artifact_id"))):
        given["artifact_id"] = STATE["artifact"]
    if given.get("namespace") == "default":
        given["namespace"] = "team-a"
    if given.get("hold_id") == STATE["hold"]:
        given["hold_id"] = "hold_0000000000000000"
