"""The client's only exception: a sentence, and a code that never changes.

The service's own codes are passed on unchanged (docs/errors.md). In addition there are `unreachable` (nobody answered,
or the connection broke), `unexpected_answer` (the answer is not from Coatcheck, or from another release),
`payload_changed` (a file became shorter while it was sent) and `digest_mismatch` if a download differs from what was
stored. A request that HTTP cannot represent is `invalid_request` without a status: it was never sent.
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


class ServiceError(Exception):
    """A request that was not answered as intended.

    Args:
        code: the permanent name of what went wrong.
        detail: what happened and what to do next, for people and models.
        status: the HTTP status; None if there was no answer.
        extra: facts about this error for programs, including `request_id`.
        retry_after: seconds after which the same request may succeed, if the service says so.
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
    """A service that was too busy to store a payload, and returned its card nevertheless.

    It is raised so that the payload is sent again; after the last attempt, `answer` is what the caller gets.
    """

    def __init__(self, answer: Any, detail: str, *, status: int, retry_after: float | None) -> None:  # noqa: ANN401 - a Receipt, whose module is not needed here
        super().__init__(OVERLOADED, detail, status=status, retry_after=retry_after)
        self.answer = answer
