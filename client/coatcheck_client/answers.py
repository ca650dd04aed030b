"""Interprets HTTP answers: as the requested value, or as an error. Pure.

An answer that is not one of Coatcheck's own problems (a proxy's page, another service) is an error too, and says who
answered. Whatever the bytes are, nothing else is raised.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from coatcheck_client.errors import (
    CHANGED,
    OVERLOADED,
    UNEXPECTED,
    UNREACHABLE,
    WRONG,
    ServiceError,
    UnstoredError,
    is_code,
)
from coatcheck_client.requests import ClientRequest
from coatcheck_client.results import Receipt, Verdict
from coatcheck_client.retry import AGAIN, seconds
from coatcheck_client.wire import Pairs

T = TypeVar("T")

_SHOWN: Final = 200
"""Characters of a foreign answer that an error repeats."""
_OURS: Final = frozenset({UNREACHABLE, UNEXPECTED, CHANGED})
"""Codes that the service never uses: their meaning here must not come from outside."""
_TRUNCATED: Final = "truncated_body"
"""The code of a body that stopped arriving for too long, perhaps because others waited: nothing of it was stored."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""Matches what may be half of a surrogate pair."""
_NOT_READ: Final = (ValueError, RecursionError)
"""What decoders raise: a ValueError for everything malformed or of another type, except for depth."""


def read(status: int, headers: Mapping[str, str], data: bytes, kind: type[T], *, url: str) -> T:
    """Returns the value of an answer.

    Args:
        status: that of the answer.
        headers: those of the answer, by lower-case names.
        data: its body.
        kind: the expected type.
        url: the service's address, for errors.

    Raises:
        ServiceError: the service's problem, or `unexpected_answer`.
        UnstoredError: the receipt of a payload that the service was too busy to store.
    """
    if not 200 <= status < 300:  # noqa: PLR2004 - success (RFC 9110)
        raise problem(status, headers, data, url=url)
    if kind is type(None):
        return None  # pyright: ignore[reportReturnType] - T is None
    try:
        answer = _decoded(data, kind)
    except _NOT_READ as e:
        detail = f"{url} answered {status}, but not as this client expects: {e}."
        raise ServiceError(UNEXPECTED, detail, status=status) from e
    if isinstance(answer, Receipt) and not answer.stored:
        for warning in answer.warnings:
            if warning.code == OVERLOADED:
                raise UnstoredError(answer, warning.message, status=status, retry_after=_retry_after(headers))
    return answer


def problem(status: int, headers: Mapping[str, str], data: bytes, *, url: str) -> ServiceError:
    """Returns the error in an answer."""
    after = _retry_after(headers)
    extra = _members(data)
    code, detail = extra.pop("code", None), extra.pop("detail", None)
    if not is_code(code) or code in _OURS or not isinstance(detail, str):
        shown = data[:_SHOWN].decode("utf-8", "replace")
        detail = f"{url} answered {status}, but not as Coatcheck does: {shown!r}."
        return ServiceError(UNEXPECTED, detail, status=status, retry_after=after)
    return ServiceError(cast("str", code), detail, status=status, extra=extra, retry_after=after)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    return seconds(headers.get("retry-after"), headers.get("date"))


def _members(data: bytes) -> dict[str, Any]:
    """Returns the members of an object; none if it is not an object."""
    try:
        return _decoded(data, dict[str, Any])
    except _NOT_READ:
        return {}


def _decoded(data: bytes, kind: type[T]) -> T:
    """Decodes JSON. Halves of surrogate pairs, which bodies of callers may contain and msgspec refuses, stay."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if _SURROGATE.search(data) is None:
            raise
        return msgspec.convert(json.loads(data.decode()), kind)


def sent_headers(ask: ClientRequest[Any], size: int | None) -> Pairs:
    """Returns a request's headers; `size` is the announced length of a streamed payload."""
    if size is None:
        return ask.headers
    return (*ask.headers, ("content-length", str(size + sum(map(len, ask.around)))))


def unreachable(url: str, error: Exception) -> ServiceError:
    """Returns the error if nobody answered, or the connection broke."""
    why = str(error) or type(error).__name__
    return ServiceError(UNREACHABLE, f"Coatcheck at {url} cannot be reached: {why}.")


def unsendable(error: Exception) -> ServiceError:
    """Returns the error for a request that cannot be sent."""
    return ServiceError(WRONG, f"The request cannot be sent as it is: {error}.")


def worth_repeating(error: ServiceError) -> bool:
    """Returns whether the same request may succeed a little later."""
    return error.code in {UNREACHABLE, CHANGED, OVERLOADED, _TRUNCATED} or error.status in AGAIN


def verdicts(answer: dict[str, Any]) -> tuple[Verdict, ...]:
    """Returns the results for quotations."""
    return msgspec.convert(answer["results"], tuple[Verdict, ...])


def is_gone(error: ServiceError) -> bool:
    """Returns whether an artifact no longer exists."""
    return error.code in {"artifact_gone", "artifact_not_found"}
