"""The OpenAPI 3.1 document, made from the routes, the request and answer types, and the table of problems.

Deterministic: the same code gives the same bytes, which is what the committed copy is compared with. Litestar's own
generator is not used: it knows neither bodies that are read as streams nor our problems, headers and bounds.
"""

import json
import re
from collections.abc import Iterable
from importlib.metadata import version
from inspect import cleandoc
from typing import Any, Final, cast

import msgspec
from litestar.handlers import HTTPRouteHandler

from coatcheck.api import parameters as fields
from coatcheck.api import route as docs
from coatcheck.api.context import wire as context_fields
from coatcheck.api.hooks import wire as hook_fields
from coatcheck.api.http.access import needed, path_of, template
from coatcheck.api.http.problems import MEDIA_TYPE, TABLE
from coatcheck.api.keys import wire as key_fields
from coatcheck.api.openapi_parts import PARAMETERS, PROBLEM, RESPONSE_HEADERS, SECURITY, request_schemas
from coatcheck.api.policies import wire as decision_fields
from coatcheck.api.reading import docs as reading_docs
from coatcheck.api.retention import wire as retention_fields
from coatcheck.api.search import wire as search_fields
from coatcheck.api.tools.schemas import tool_schemas
from coatcheck.core.errors import Code

Node = dict[str, Any]
_REF: Final = "#/components/schemas/"
_ALWAYS: Final = (Code.INVALID_REQUEST, Code.FORBIDDEN_HOST, Code.INTERNAL, Code.OVERLOADED, Code.STORAGE_UNAVAILABLE)
_METHODS: Final = ("get", "head", "post", "put", "patch", "delete")
_KEYED: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN)
_CALLED: Final = (*_KEYED, Code.RATE_LIMITED)
"""What can be wrong with whoever calls."""


def openapi_document(handlers: Iterable[HTTPRouteHandler]) -> bytes:
    """The OpenAPI document of the routes: pretty-printed JSON, the same bytes for the same code."""
    paths: dict[str, Node] = {}
    for handler in handlers:
        doc: docs.Doc = handler.opt["doc"]
        (method,) = handler.http_methods
        paths.setdefault(template(path_of(handler)), {})[str(method).lower()] = doc
    paths["/v1/artifacts/{artifact_id}/content"] = {"get": reading_docs.CONTENT, "head": reading_docs.CONTENT_HEAD}
    for path, operations in paths.items():
        for method, doc in operations.items():
            if needed(method.upper(), path) is not None:
                operations[method] = msgspec.structs.replace(doc, problems=(*doc.problems, *_CALLED))
    schemas = _schemas(paths)
    document: Node = {
        "openapi": "3.1.1",
        "info": _info(),
        "servers": [{"url": "/", "description": "Where this document came from."}],
        "security": _security(None),
        "tags": [{"name": name, "description": text} for name, text in docs.TAGS.items()],
        "paths": {path: _path(path, paths[path], schemas) for path in sorted(paths)},
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas) if name not in _queries(paths)},
            "parameters": {name: PARAMETERS[name] for name in sorted(PARAMETERS)},
            "examples": {str(code): _example(code) for code in sorted(_codes(paths))},
            "responses": {str(code): _problem([code], body=True) for code in sorted(_alone(paths))},
            "headers": {name: RESPONSE_HEADERS[name] for name in sorted(RESPONSE_HEADERS)},
            "securitySchemes": SECURITY,
        },
    }
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _security(scope: str | None) -> list[Node]:
    """Either way to present a key that has a scope; none where no key is needed."""
    return [] if scope is None else [{name: [scope]} for name in SECURITY]


def _info() -> Node:
    return {
        "title": "Coatcheck",
        "version": version("coatcheck"),
        "summary": "Keeps bulky tool output out of a language model's context without losing it.",
        "description": (
            "Post a payload, put the answer's `text` into the tool result, read further on request. Errors are "
            "problem details (RFC 9457) with a permanent `code`; times are RFC 3339 in UTC; every answer carries "
            "`X-Request-ID`. Listening on loopback, the service asks for no key until one is made, and answers only to "
            "requests for a host name of this machine that no other site sent."
        ),
        "contact": {"name": "The Coatcheck developers"},
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }


def _queries(paths: dict[str, Node]) -> set[str]:
    return {doc.query.__name__ for path in paths.values() for doc in path.values()}


def _schemas(paths: dict[str, Node]) -> dict[str, Node]:
    """Every schema that a route names, cleaned of what msgspec writes but readers do not need."""
    models: set[type[msgspec.Struct]] = {
        fields.StoreBody,
        fields.PatchBody,
        context_fields.CompactBody,
        context_fields.MeasureBody,
        hook_fields.ClaudeCodeEvent,
        search_fields.SearchResultsBody,
        search_fields.VerifyBody,
        search_fields.QuotationBody,
        key_fields.NewKeyAsk,
        key_fields.NewNamespaceAsk,
        key_fields.NamespacePatchAsk,
        decision_fields.SetPolicyAsk,
        decision_fields.NewHoldAsk,
        retention_fields.PlanAsk,
        retention_fields.ApplyAsk,
        retention_fields.UndoAsk,
        retention_fields.JobAsk,
    }
    for path in paths.values():
        for doc in path.values():
            models.add(doc.query)
            models.update(answer.model for answer in doc.answers if answer.model is not None)
    ordered = sorted(models, key=lambda model: model.__name__)
    _, found = msgspec.json.schema_components(ordered, ref_template=_REF + "{name}")
    schemas: dict[str, Node] = {name: _clean(schema) for name, schema in found.items()}
    schemas["Problem"] = PROBLEM
    for name in ("BatchItem", "QuotationView"):
        schemas[name]["properties"]["problem"] = {"$ref": _REF + "Problem"}
    return request_schemas(schemas) | tool_schemas()


def _clean(node: Node) -> Node:
    """A schema without generated titles and empty lists; a null default says nothing.

    Descriptions that are docstrings lose their indentation, as they do from Python 3.13 on.
    """
    cleaned = {key: _cleaned(value) for key, value in node.items() if not _is_noise(key, value, node)}
    if isinstance(text := cleaned.get("description"), str):
        cleaned["description"] = cleandoc(text)
    return _flat(cleaned)


def _cleaned(value: object) -> object:
    if isinstance(value, list):
        return [_cleaned(item) for item in cast("list[object]", value)]
    return _clean(cast("Node", value)) if isinstance(value, dict) else value


def _flat(node: Node) -> Node:
    """`anyOf: [X, null]` keeps X's description and examples where a reader looks for them."""
    options = node.get("anyOf")
    if options and any(option == {"type": "null"} for option in options):
        for option in options:
            for key in ("description", "examples"):
                if key in option and key not in node and "$ref" not in option:
                    node[key] = option.pop(key)
    return node


def _is_noise(key: str, value: object, node: Node) -> bool:
    titled = key == "title" and isinstance(value, str) and ("properties" in node or "enum" in node)
    return titled or (key == "required" and value == []) or (key == "default" and value in (None, [], ()))


def _path(path: str, operations: Node, schemas: dict[str, Node]) -> Node:
    names = re.findall(r"\{([^}]+)\}", path)
    item: Node = {"parameters": [{"$ref": f"#/components/parameters/{name}"} for name in names]} if names else {}
    for method in _METHODS:
        if method in operations:
            item[method] = _operation(operations[method], schemas, body=method != "head")
            item[method]["security"] = _security(needed(method.upper(), path))
    return item


def _operation(doc: docs.Doc, schemas: dict[str, Node], *, body: bool) -> Node:
    parameters = _query(schemas[doc.query.__name__])
    parameters += [{"$ref": f"#/components/parameters/{name}"} for name in ("X-Request-ID", *doc.headers)]
    operation: Node = {
        "operationId": doc.operation_id,
        "tags": [doc.tag],
        "summary": doc.summary,
        "description": doc.description,
        "parameters": parameters,
    }
    if doc.body:
        operation["requestBody"] = {
            "required": True,
            "content": {media: {"schema": {"$ref": _REF + name}} for media, name in doc.body},
        }
    responses: Node = {str(answer.status): _answer(answer) for answer in doc.answers}
    responses |= _problems(doc, body=body)
    operation["responses"] = {status: responses[status] for status in sorted(responses)}
    return operation


def _query(schema: Node) -> list[Node]:
    required = schema.get("required", [])
    return [_parameter(name, field, required=name in required) for name, field in schema.get("properties", {}).items()]


def _parameter(name: str, schema: Node, *, required: bool) -> Node:
    """A query parameter. None can be null: leaving it out says that."""
    schema = dict(schema)
    options = [option for option in schema.pop("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        schema = {**options[0], **schema}
    elif options:
        schema["anyOf"] = options
    description = schema.pop("description", None)
    parameter: Node = {"name": name, "in": "query", "required": required}
    if description is not None:
        parameter["description"] = description
    return {**parameter, "schema": schema}


def _answer(answer: docs.DocumentedAnswer) -> Node:
    response: Node = {
        "description": answer.description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-ID", *answer.headers)},
    }
    content: Node = {}
    if answer.model is not None:
        content[docs.JSON] = {"schema": {"$ref": _REF + answer.model.__name__}}
    if answer.schema is not None:
        content[docs.JSON] = {"schema": {"$ref": _REF + answer.schema}}
    for media in answer.other:
        content[media] = {"schema": {"type": "string"} if media.startswith("text/") else {}}
    if content:
        response["content"] = content
    return response


def _problems(doc: docs.Doc, *, body: bool) -> Node:
    """The problem responses, one for each status, with an example for each code."""
    return {
        str(status): _shared(codes[0]) if body and len(codes) == 1 else _problem(codes, body=body)
        for status, codes in _by_status(doc).items()
    }


def _shared(code: Code) -> Node:
    return {"$ref": f"#/components/responses/{code}"}


def _alone(paths: dict[str, Node]) -> set[Code]:
    """Codes that are the only one of their status somewhere: their response is written once."""
    found: set[Code] = set()
    for path in paths.values():
        for method, doc in path.items():
            if method != "head":
                found.update(codes[0] for codes in _by_status(doc).values() if len(codes) == 1)
    return found


def _by_status(doc: docs.Doc) -> dict[int, list[Code]]:
    by_status: dict[int, list[Code]] = {}
    for code in dict.fromkeys((*doc.problems, *_ALWAYS)):
        by_status.setdefault(TABLE[code].status, []).append(code)
    return by_status


def _codes(paths: dict[str, Node]) -> set[Code]:
    named = {code for path in paths.values() for doc in path.values() for code in doc.problems}
    return named | {*_ALWAYS}


def _example(code: Code) -> Node:
    row = TABLE[code]
    value = {
        "type": f"/errors/{code}",
        "title": row.title,
        "status": row.status,
        "code": str(code),
        "detail": row.advice,
    }
    return {"summary": row.title, "value": value}


def _problem(codes: list[Code], *, body: bool) -> Node:
    headers = ["X-Request-ID"]
    if any(TABLE[code].retry_after is not None for code in codes):
        headers.append("Retry-After")
    if any(code in _KEYED for code in codes):
        headers.append("WWW-Authenticate")
    if Code.RATE_LIMITED in codes:
        headers += ["RateLimit", "RateLimit-Policy"]
    response: Node = {
        "description": "; ".join(TABLE[code].title for code in codes) + ".",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
    }
    if body:
        examples = {str(code): {"$ref": f"#/components/examples/{code}"} for code in codes}
        response["content"] = {MEDIA_TYPE: {"schema": {"$ref": _REF + "Problem"}, "examples": examples}}
    return response
