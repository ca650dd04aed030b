"""What the OpenAPI document says of policies, holds, usage and namespaces that go. Values only; see `docs`."""

from typing import Final

from coatcheck.api.keys.docs import TAG
from coatcheck.api.policies import wire as fields
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.errors import Code

_WRITTEN: Final = (*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT)

LIST_POLICIES: Final = Doc(
    operation_id="listPolicies",
    tag=TAG,
    summary="List policies",
    description="Those of the namespace and those of all namespaces, as they are kept.",
    query=fields.PoliciesQuery,
    answers=(DocumentedAnswer(status=200, description="All of them.", model=fields.PoliciesView),),
)
SHOW_POLICY: Final = Doc(
    operation_id="getPolicyHistory",
    tag=TAG,
    summary="A scope's policy and its versions",
    description="Newest first, at most 100. The newest is the one that holds; null where it was removed.",
    query=fields.ScopeQuery,
    answers=(DocumentedAnswer(status=200, description="The versions.", model=fields.PolicyHistoryView),),
    problems=(Code.POLICY_NOT_FOUND,),
)
EXPLAIN_POLICY: Final = Doc(
    operation_id="explainPolicies",
    tag=TAG,
    summary="What holds for a payload, and why",
    description=(
        "For each field the most specific scope that says it decides: all namespaces, the namespace, then the session, "
        "the kind, the tool, a label; of several labels the first in the order of characters. What no policy says is "
        "left to the settings."
    ),
    query=fields.ExplainQuery,
    answers=(DocumentedAnswer(status=200, description="What holds.", model=fields.ExplainedView),),
)
SET_POLICY: Final = Doc(
    operation_id="setPolicy",
    tag=TAG,
    summary="Set a policy",
    description=(
        "Puts a policy in the place of the scope's own: what is left out is no longer decided. It holds for what is "
        "stored or changed from then on: on the replica that answers at once, on every other one within five seconds. "
        "What a receipt has promised stays. `max_bytes`, `max_artifacts`, `evict` and `tombstone_ttl` are kept by the "
        "namespace, and can be said only of a whole one or of all. Needs a key of `*` for the namespace `*`."
    ),
    headers=CODED,
    body=((JSON, "SetPolicyAsk"),),
    answers=(DocumentedAnswer(status=200, description="Set.", model=fields.ChangedPolicyView),),
    problems=_WRITTEN,
)
REMOVE_POLICY: Final = Doc(
    operation_id="removePolicy",
    tag=TAG,
    summary="Remove a policy",
    description="Its versions stay listed. As with a new one, it takes up to five seconds on other replicas.",
    query=fields.ScopeQuery,
    answers=(DocumentedAnswer(status=200, description="Removed.", model=fields.ChangedPolicyView),),
    problems=(Code.POLICY_NOT_FOUND,),
)
LIST_HOLDS: Final = Doc(
    operation_id="listHolds",
    tag=TAG,
    summary="List holds",
    description="By ID, also those whose time is over.",
    query=fields.HoldsQuery,
    answers=(DocumentedAnswer(status=200, description="A page.", model=fields.HoldsView),),
)
PLACE_HOLD: Final = Doc(
    operation_id="placeHold",
    tag=TAG,
    summary="Place a hold",
    description=(
        "Forbids to delete an artifact, a session with all that comes into it, or a namespace: by anybody, by any "
        "route, by expiry and by eviction. From the answer on no delete that was not answered before removes what it "
        "covers; such a delete answers 423 with the hold's ID. What expires under a hold is answered as gone and its "
        "row and bytes stay: a caller with the scope `admin` can give it a later `ttl`, or pin it."
    ),
    headers=CODED,
    body=((JSON, "NewHoldAsk"),),
    answers=(DocumentedAnswer(status=201, description="Placed.", model=fields.HoldView),),
    problems=(*_WRITTEN, Code.ARTIFACT_NOT_FOUND, Code.ARTIFACT_GONE, Code.INVALID_ARTIFACT_ID),
)
RELEASE_HOLD: Final = Doc(
    operation_id="releaseHold",
    tag=TAG,
    summary="Release a hold",
    description="What it alone kept can be deleted from then on, and goes with the next sweep where it has expired.",
    answers=(DocumentedAnswer(status=200, description="Released; as it was.", model=fields.HoldView),),
    problems=(Code.HOLD_NOT_FOUND,),
)
USAGE: Final = Doc(
    operation_id="listUsage",
    tag=TAG,
    summary="What namespaces hold",
    description=(
        "Artifacts and stored bytes, exactly, with the limits of the policies. Who administers every namespace and "
        "names none gets all of them."
    ),
    query=fields.UsageQuery,
    answers=(DocumentedAnswer(status=200, description="A page.", model=fields.UsagesView),),
)
DELETE_NAMESPACE: Final = Doc(
    operation_id="deleteNamespace",
    tag=TAG,
    summary="Delete everything in a namespace",
    description=(
        "From the answer on nothing is stored in it; what is in it goes in batches, as listUsage shows. What is held "
        "stays until it is released. When nothing is left the namespace can be used again. Needs a key of `*`."
    ),
    answers=(DocumentedAnswer(status=202, description="Begun, now or before.", model=fields.UsageView),),
    problems=(Code.HELD, Code.NAMESPACE_NOT_FOUND),
)
