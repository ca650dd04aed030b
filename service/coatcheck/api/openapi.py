"""Generates the OpenAPI 3.1 document from the routes, the request and answer types, and the table of errors.

The same code always gives the same bytes, so that the committed copy can be compared with them. Litestar's own
generator is not used: it can describe neither streamed bodies nor the service's problems, headers and bounds.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from inspect import cleandoc
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from coatcheck import __version__
from coatcheck.api.http.error_table import TABLE
from coatcheck.api.http.problems import MEDIA_TYPE
from coatcheck.api.openapi_parts import PARAMETERS, PROBLEM, RESPONSE_HEADERS, SECURITY
from coatcheck.api.route import FORM, JSON, Answer, Route
from coatcheck.core.errors import Code

Node = dict[str, Any]
_REF: Final = "#/components/schemas/"
_ALWAYS: Final = (
    Code.INVALID_REQUEST,
    Code.FORBIDDEN_HOST,
    Code.HEADER_TIMEOUT,
    Code.HEADER_TOO_LARGE,
    Code.INTERNAL,
    Code.OVERLOADED,
    Code.STORAGE_UNAVAILABLE,
)
"""Errors that every route may return."""
_ALWAYS_SENT: Final = ("X-Request-ID", "Coatcheck-Version")
"""Header fields of every answer."""
_METHODS: Final = ("get", "head", "post", "put", "patch", "delete")
"""The order of operations within a path."""
_KEY_CODES: Final = (Code.UNAUTHENTICATED, Code.FORBIDDEN)
"""Errors for a key that is missing, invalid or not sufficient."""
_CALLER_CODES: Final = (*_KEY_CODES, Code.RATE_LIMITED)
"""Errors that every route that needs a key may return."""


_TAGS: Final = {
    "Ingest": "Hand over payloads; get back what the model should read instead.",
    "Reading": "Read further: bytes, parts, matches.",
    "Tools": "The tool with which a model reads further: how to declare it, and what a call returns.",
    "Artifacts": "Look artifacts up, change how long they are kept, delete them.",
    "Searching": "Web searches within a budget: what to read of a response, what to keep, and checks of quotations.",
    "Contexts": "Requests to a model: compact them, measure them, account for their tokens.",
    "Hooks": "Routes that agent hosts call by themselves after each tool call.",
    "Administration": "Keys, namespaces, and decisions about stored payloads. Needs the scope `admin`.",
    "Service": "Health and description of the service.",
}
"""By tag, what its routes are for. The order is that of the headings in the reference."""


def openapi_document(routes: Iterable[Route]) -> bytes:
    """Returns the OpenAPI document of the routes as pretty-printed JSON; the same code gives the same bytes."""
    paths: dict[str, dict[str, Route]] = {}
    for route in routes:
        # Only routes that need a key can fail because of the key.
        full_route = route if route.scope is None else replace(route, problems=(*route.problems, *_CALLER_CODES))
        paths.setdefault(route.path, {})[str(route.method).lower()] = full_route
    all_routes = [route for operations in paths.values() for route in operations.values()]
    schemas = _schemas(all_routes)
    # Queries become parameters of their operations, so the document does not list their schemas as components.
    queries = {route.query.__name__ for route in all_routes}
    document: Node = {
        "openapi": "3.1.1",
        "info": _info(),
        "servers": [{"url": "/", "description": "The service that served this document."}],
        "security": _security(None),
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": {path: _path(path, paths[path], schemas) for path in sorted(paths)},
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas) if name not in queries},
            "parameters": {name: PARAMETERS[name] for name in sorted(PARAMETERS)},
            "examples": {str(code): _example(code) for code in sorted(_codes(all_routes))},
            "responses": {str(code): _problem([code], body=True) for code in sorted(_single_codes(all_routes))},
            "headers": {name: RESPONSE_HEADERS[name] for name in sorted(RESPONSE_HEADERS)},
            "securitySchemes": SECURITY,
        },
    }
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _security(scope: str | None) -> list[Node]:
    """Returns the ways to present a key; none if `scope` is None, as no key is needed then.

    In OpenAPI, only OAuth has scopes. The document therefore names the scope of a route's key in `x-scope`.
    """
    return [] if scope is None else [{name: []} for name in SECURITY]


def _info() -> Node:
    return {
        "title": "Coatcheck",
        "version": __version__,
        "summary": "Keeps bulky tool output out of a language model's context without losing it.",
        "description": (
            "Post a payload, put the answer's `text` into the tool result, read further on request. Errors are "
            "problem details (RFC 9457) with a permanent `code`; times are RFC 3339 in UTC; every answer carries "
            "`X-Request-ID` and `Coatcheck-Version`. While it listens on loopback, the service needs no key until the "
            "first one is created, and answers only requests for a host name of this machine that do not come from "
            "another site."
        ),
        "contact": {"name": "The Coatcheck developers"},
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }


def _schemas(routes: list[Route]) -> dict[str, Node]:
    """Returns the schemas of all routes by name, without members that msgspec adds but readers do not need."""
    # First, collect what the routes name: types, and schemas written by hand.
    models: dict[str, type[Struct]] = {}
    explicit_schemas: dict[str, Node] = {"Problem": PROBLEM}
    for route in routes:
        models[route.query.__name__] = route.query
        if route.model is not None:
            models[route.model.__name__] = route.model
        models |= {_body_name(model): model for model in route.body.values() if not isinstance(model, str)}
        for name, schema in route.schemas.items():
            if isinstance(schema, dict):
                explicit_schemas[name] = schema
            else:
                models[name] = schema
    # Sort by name, so that the bytes do not depend on the order of the routes.
    ordered = sorted(models.values(), key=lambda model: model.__name__)
    _, generated = msgspec.json.schema_components(ordered, ref_template=_REF + "{name}")
    schemas: dict[str, Node] = {name: _clean(schema) for name, schema in generated.items()} | explicit_schemas
    # Then, use the names of the document: `StoreRequest` for the type `StoreBody`.
    for name, model in models.items():
        schemas[name] = _complete_schema(schemas.pop(model.__name__), model)
    # Last, adjust schemas to their use: a form cannot contain null, and defaults of a body are put into words.
    bodies = {_schema_name(body) for route in routes for body in route.body.values()}
    for route in routes:
        if isinstance(form := route.body.get(FORM), type):
            fields = schemas[_body_name(form)]["properties"]
            fields |= {name: _without_null(field) for name, field in fields.items()}
    return {name: _allow_anything(_optional(schema) if name in bodies else schema) for name, schema in schemas.items()}


def _optional(schema: Node) -> Node:
    """Returns a request's schema with its defaults in the descriptions.

    Generators of client types would take a field with a `default` for a required one.
    """
    fields: Node = schema.get("properties", {})
    return schema | (
        {"properties": {name: _describe_default(field) for name, field in fields.items()}} if fields else {}
    )


def _describe_default(field: Node) -> Node:
    if "default" not in field:
        return field
    rest = {key: value for key, value in field.items() if key != "default"}
    note = f"Default: {json.dumps(field['default'])}."
    return {**rest, "description": f"{rest['description']} {note}" if "description" in rest else note}


def _allow_anything(node: Node) -> Node:
    """Returns a schema that says explicitly that untyped objects and lists may contain anything."""
    open_node = {key: _within(value, _allow_anything) for key, value in node.items()}
    if node.get("type") == "object" and not {"properties", "additionalProperties"} & node.keys():
        open_node["additionalProperties"] = True
    if node.get("type") == "array":
        open_node.setdefault("items", {})
    return open_node


def _within(value: object, change: Callable[[Node], Node]) -> object:
    """Returns a value with `change` applied to every schema in it."""
    if isinstance(value, list):
        return [_within(item, change) for item in cast("list[object]", value)]
    return change(cast("Node", value)) if isinstance(value, dict) else value


def _schema_name(body: type[Struct] | str) -> str:
    return body if isinstance(body, str) else _body_name(body)


def _body_name(model: type[Struct]) -> str:
    """Returns the name of a body's schema: `StoreRequest` for `StoreBody`."""
    name = model.__name__
    return f"{name.removesuffix('Body')}Request" if name.endswith("Body") else name


def _complete_schema(schema: Node, model: type[Struct]) -> Node:
    """Returns a model's schema with the model's EXAMPLES, and with the properties in its WRITTEN."""
    for name, node in getattr(model, "WRITTEN", {}).items():
        properties = schema["properties"]
        properties[name] = node if "$ref" in node else {**properties[name], **node}
    examples = getattr(model, "EXAMPLES", None)
    return schema if examples is None else {**schema, "examples": examples}


def _without_null(field: Node) -> Node:
    """Returns a field's schema without null, which neither a form nor a query string can contain."""
    options = [option for option in field.get("anyOf", []) if option != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    if len(options) == 1:
        return {**options[0], **rest}
    return {**rest, "anyOf": options} if options else field


def _clean(node: Node) -> Node:
    """Returns a schema without generated titles, empty lists and null defaults.

    Removes the indentation from descriptions that are docstrings. Python itself does so since 3.13.
    """
    clean_node = {key: _within(value, _clean) for key, value in node.items() if not _is_noise(key, value, node)}
    if isinstance(text := clean_node.get("description"), str):
        clean_node["description"] = cleandoc(text)
    return _lift_description(clean_node)


def _lift_description(node: Node) -> Node:
    """Moves the description and examples of X in `anyOf: [X, null]` up into the field's own schema."""
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


def _path(path: str, operations: dict[str, Route], schemas: dict[str, Node]) -> Node:
    names = re.findall(r"\{([^}]+)\}", path)
    item: Node = {"parameters": [{"$ref": f"#/components/parameters/{name}"} for name in names]} if names else {}
    for method in _METHODS:
        if method in operations:
            item[method] = _operation(operations[method], schemas, body=method != "head")
            scope = operations[method].scope
            item[method] |= {"security": _security(scope)} | ({} if scope is None else {"x-scope": scope})
    return item


def _operation(route: Route, schemas: dict[str, Node], *, body: bool) -> Node:
    parameters = _query(schemas[route.query.__name__])
    parameters += [{"$ref": f"#/components/parameters/{name}"} for name in ("X-Request-ID", *route.headers)]
    operation: Node = {
        "operationId": route.operation_id,
        "tags": [route.tag],
        "summary": route.summary,
        "description": route.description,
        "parameters": parameters,
    }
    if route.body:
        operation["requestBody"] = {
            "required": True,
            "content": {media: {"schema": {"$ref": _REF + _schema_name(body)}} for media, body in route.body.items()},
        }
    responses: Node = {str(status): _answer(answer, route.model) for status, answer in route.answers.items()}
    for status, problem in _problems(route, body=body).items():
        _join(responses.setdefault(status, {}), problem)
    operation["responses"] = {status: responses[status] for status in sorted(responses)}
    return operation


def _join(response: Node, problem: Node) -> None:
    """Adds a problem to the response of its status. Most statuses of problems have no other response."""
    for key, value in problem.items():
        if isinstance(value, dict):
            response[key] = {**response.get(key, {}), **value}
        else:
            response[key] = f"{response[key]} Or: {value}" if key in response else value


def _query(schema: Node) -> list[Node]:
    required = schema.get("required", [])
    return [_parameter(name, field, required=name in required) for name, field in schema.get("properties", {}).items()]


def _parameter(name: str, schema: Node, *, required: bool) -> Node:
    """Returns a query parameter. No query parameter can be null: the caller leaves it out instead."""
    schema = dict(_without_null(schema))
    description = schema.pop("description", None)
    parameter: Node = {"name": name, "in": "query", "required": required}
    if description is not None:
        parameter["description"] = description
    return {**parameter, "schema": schema}


def _answer(answer: Answer, model: type[Struct] | None) -> Node:
    response: Node = {
        "description": answer.description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in (*_ALWAYS_SENT, *answer.headers)},
    }
    content: Node = {
        media: {"schema": {"type": "string"} if media.startswith("text/") else {}} for media in answer.media
    }
    schema = answer.schema or (None if model is None else model.__name__)
    if schema is not None:
        content = {JSON: {"schema": {"$ref": _REF + schema}}, **content}
    return {**response, "content": content} if content else response


def _problems(route: Route, *, body: bool) -> Node:
    """Returns the problem responses, one per status, with an example for each code."""
    return {
        str(status): _response_ref(codes[0]) if body and len(codes) == 1 else _problem(codes, body=body)
        for status, codes in _by_status(route).items()
    }


def _response_ref(code: Code) -> Node:
    return {"$ref": f"#/components/responses/{code}"}


def _single_codes(routes: list[Route]) -> set[Code]:
    """Returns the codes that are the only one of their status on some route.

    The response of such a code is a shared component, to which the routes refer.
    """
    with_body = [route for route in routes if route.method != "HEAD"]
    return {codes[0] for route in with_body for codes in _by_status(route).values() if len(codes) == 1}


def _by_status(route: Route) -> dict[int, list[Code]]:
    by_status: dict[int, list[Code]] = {}
    for code in dict.fromkeys((*route.problems, *_ALWAYS)):
        by_status.setdefault(TABLE[code].status, []).append(code)
    return by_status


def _codes(routes: list[Route]) -> set[Code]:
    return {code for route in routes for code in route.problems} | {*_ALWAYS}


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
    # A status has one list of header fields. It contains the fields of all codes with that status.
    headers = [*_ALWAYS_SENT]
    if any(TABLE[code].retry_after is not None for code in codes):
        headers.append("Retry-After")
    if any(code in _KEY_CODES for code in codes):
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
