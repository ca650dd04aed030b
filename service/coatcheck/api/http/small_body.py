"""Small JSON bodies, as administrators send them: read whole, decoded, refused where they are not what was asked."""

from typing import Any, Final, TypeVar

from litestar import Request

from coatcheck.api.http.body import body_too_large, content_length, open_body
from coatcheck.api.http.json_body import decode
from coatcheck.api.http.limits import KIB
from coatcheck.api.http.query import read_query
from coatcheck.api.http.request_parts import require_json
from coatcheck.api.parameters import EmptyQuery
from coatcheck.api.services import RouteContext

T = TypeVar("T")
_BODY: Final = 64 * KIB


async def small_body(request: Request[Any, Any, Any], desk: RouteContext, model: type[T]) -> T:
    """A JSON body of at most 64 KiB as a `model`, of a request without a query string.

    Raises:
        CoatcheckError: `unsupported_media_type`, `body_too_large`, `invalid_json`, `invalid_request`, and what reading
            a body raises.
    """
    read_query(request.scope, EmptyQuery)
    return await small_body_only(request, desk, model)


async def small_body_only(request: Request[Any, Any, Any], desk: RouteContext, model: type[T]) -> T:
    """The same of a request whose query string somebody else reads."""
    scope = request.scope
    require_json(scope, "application/merge-patch+json")
    length = content_length(scope)
    if length is not None and length > _BODY:
        raise body_too_large(_BODY)
    with desk.budget.room() as room:
        data = await open_body(scope, request.receive, desk.limits).whole(_BODY, room)
        asked, _ = decode(data, model)
    return asked
