"""Interprets HTTP answers: as the requested value, or as an error. Pure.

An answer that is neither the expected value nor one of Coatcheck's own problems, such as a proxy's page, becomes an
error that says who answered. Nothing else is raised, whatever the bytes are.
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
"""Maximum bytes of a foreign answer that an error repeats."""
_OURS: Final = frozenset({UNREACHABLE, UNEXPECTED, CHANGED})
"""Codes that only this client uses. An answer with one of them is not accepted: callers would take the code for the
client's own."""
_TRUNCATED: Final = "truncated_body"
"""The code of a body that stopped arriving for too long, perhaps because the service was busy. It was not stored."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""Matches an escape that may be half of a surrogate pair."""
_NOT_READ: Final = (ValueError, RecursionError)
"""What decoders raise: RecursionError for data that is nested too deeply, ValueError for all other wrong data."""


def read(status: int, headers: Mapping[str, str], data: bytes, kind: type[T], *, url: str) -> T:
    """Returns the value of an answer.

    Args:
        status: the answer's status.
        headers: the answer's header fields, by lower-case names.
        data: the answer's body.
        kind: the expected type.
        url: the service's address, for errors.

    Raises:
        ServiceError: the service's problem, or `unexpected_answer`.
        UnstoredError: the service was too busy to store the payload; `answer` is the receipt.
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
    """Returns the error that an answer reports."""
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
    """Returns the members of a JSON object; none if the data is not a JSON object."""
    try:
        return _decoded(data, dict[str, Any])
    except _NOT_READ:
        return {}


def _decoded(data: bytes, kind: type[T]) -> T:
    """Decodes JSON. Keeps halves of surrogate pairs, which bodies of callers may contain and msgspec refuses."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if _SURROGATE.search(data) is None:
            raise
        return msgspec.convert(json.loads(data.decode()), kind)


def sent_headers(ask: ClientRequest[Any], size: int | None) -> Pairs:
    """Returns a request's header fields; `size` is the number of bytes of a streamed payload, if it is known."""
    if size is None:
        return ask.headers
    return (*ask.headers, ("content-length", str(size + sum(map(len, ask.around)))))


def unreachable(url: str, error: Exception) -> ServiceError:
    """Returns the error for a request that nobody answered, or whose connection broke."""
    why = str(error) or type(error).__name__
    return ServiceError(UNREACHABLE, f"Coatcheck at {url} cannot be reached: {why}.")


def unsendable(error: Exception) -> ServiceError:
    """Returns the error for a request that HTTP cannot represent."""
    return ServiceError(WRONG, f"The request cannot be sent as it is: {error}.")


def worth_repeating(error: ServiceError) -> bool:
    """Returns whether the same request may succeed a little later."""
    return error.code in {UNREACHABLE, CHANGED, OVERLOADED, _TRUNCATED} or error.status in AGAIN


def verdicts(answer: dict[str, Any]) -> tuple[Verdict, ...]:
    """Returns the results for quotations, in the order of the answer."""
    return msgspec.convert(answer["results"], tuple[Verdict, ...])


def is_gone(error: ServiceError) -> bool:
    """Returns whether an error says that an artifact does not exist, or no longer exists."""
    return error.code in {"artifact_gone", "artifact_not_found"}
