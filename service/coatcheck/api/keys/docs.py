"""What the OpenAPI document says of keys and namespaces. Values only; see `docs`."""

from typing import Final

from coatcheck.api.keys import wire as fields
from coatcheck.api.route import BODY, CODED, JSON, Doc, DocumentedAnswer
from coatcheck.core.errors import Code

TAG: Final = "Administration"
_WRITTEN: Final = (*BODY, Code.INVALID_JSON, Code.INVALID_CONTENT)

LIST_KEYS: Final = Doc(
    operation_id="listKeys",
    tag=TAG,
    summary="List keys",
    description="Newest first, also those that were revoked or have expired. Secrets are kept nowhere.",
    query=fields.KeysQuery,
    answers=(DocumentedAnswer(status=200, description="A page.", model=fields.KeysView),),
    problems=(Code.INVALID_CURSOR,),
)
CREATE_KEY: Final = Doc(
    operation_id="createKey",
    tag=TAG,
    summary="Make a key",
    description=(
        "Answers the key itself, once. A key administers its own namespace alone; one of the namespace `*` administers "
        "all, and names the one that it means. From the first key on every caller of the service needs one."
    ),
    headers=CODED,
    body=((JSON, "NewKeyAsk"),),
    answers=(DocumentedAnswer(status=201, description="Made.", model=fields.NewKeyView),),
    problems=_WRITTEN,
)
REVOKE_KEY: Final = Doc(
    operation_id="revokeKey",
    tag=TAG,
    summary="Revoke a key",
    description="Every request that comes after the answer is refused, by every replica. The key stays listed.",
    answers=(DocumentedAnswer(status=200, description="Revoked, now or before.", model=fields.KeyView),),
    problems=(Code.KEY_NOT_FOUND,),
)
LIST_NAMESPACES: Final = Doc(
    operation_id="listNamespaces",
    tag=TAG,
    summary="List namespaces",
    description="Those that were made, or got a key; who administers one sees that one.",
    query=fields.NamespacesQuery,
    answers=(DocumentedAnswer(status=200, description="A page.", model=fields.NamespacesView),),
)
CREATE_NAMESPACE: Final = Doc(
    operation_id="createNamespace",
    tag=TAG,
    summary="Make a namespace",
    description="A namespace's first key makes it, too. Needs a key of the namespace `*`.",
    headers=CODED,
    body=((JSON, "NewNamespaceAsk"),),
    answers=(
        DocumentedAnswer(status=201, description="Made.", model=fields.NamespaceView),
        DocumentedAnswer(status=200, description="It was there already.", model=fields.NamespaceView),
    ),
    problems=_WRITTEN,
)
SWITCH_NAMESPACE: Final = Doc(
    operation_id="updateNamespace",
    tag=TAG,
    summary="Disable or enable a namespace",
    description=(
        "While it is disabled all of its keys are refused, by every replica and from the answer on; what it stores "
        "stays and expires as it would. Needs a key of the namespace `*`."
    ),
    headers=CODED,
    body=((JSON, "NamespacePatchAsk"),),
    answers=(DocumentedAnswer(status=200, description="As it is now.", model=fields.NamespaceView),),
    problems=(*_WRITTEN, Code.NAMESPACE_NOT_FOUND),
)
