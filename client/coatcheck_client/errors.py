"""The exception that the client's methods raise: a sentence, and a code that never changes.

The service's own codes are passed on unchanged (docs/errors.md). The client adds `unreachable` (nobody answered, or the
connection broke), `unexpected_answer` (the answer is not from Coatcheck, or is from another release) and
`payload_changed` (a file became shorter while it was sent). It also raises `digest_mismatch` if a download differs from
what was stored. A request that HTTP cannot represent is `invalid_request` without a status, because it was never sent.
"""

import re
from typing import Any, Final

UNREACHABLE: Final = "unreachable"
UNEXPECTED: Final = "unexpected_answer"
CHANGED: Final = "payload_changed"
WRONG: Final = "invalid_request"
_CODE: Final = re.compile(r"(?=.{1,64}\Z)[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def is_code(value: object) -> bool:
    """Returns whether a value has the form of the service's codes: lower-case words, at most 64 characters."""
    return isinstance(value, str) and _CODE.fullmatch(value) is not None


OVERLOADED: Final = "overloaded"
RATE_LIMITED: Final = "rate_limited"


class ServiceError(Exception):
    """A request that failed, or whose answer was not the expected one.

    Args:
        code: the permanent name of what went wrong.
        detail: what happened and what to do next, for people and for models.
        status: the HTTP status; None if there was no answer.
        extra: further facts about this error for programs, including `request_id`.
        retry_after: seconds after which the same request may succeed; None if the service does not say.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        extra: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{detail} [{code}]")
        self.code = code
        self.detail = detail
        self.status = status
        self.extra = extra or {}
        self.retry_after = retry_after


class UnstoredError(ServiceError):
    """The service was too busy to store a payload, but returned its card.

    It is raised so that the payload is sent again. If the last attempt fails too, the caller gets `answer`.
    """

    def __init__(self, answer: Any, detail: str, *, status: int, retry_after: float | None) -> None:  # noqa: ANN401 - a Receipt, whose module is not needed here
        super().__init__(OVERLOADED, detail, status=status, retry_after=retry_after)
        self.answer = answer
