"""The one exception of the client: a sentence, and a code that never changes.

The service's own codes are passed on as they are (docs/errors.md). Beside them stand `unreachable` (nobody answered, or
the connection broke), `unexpected_answer` (who answered is no Coatcheck, or one of another release), `payload_changed`
(a file became shorter while it was sent) and `digest_mismatch` where a download is not what was stored. A request that
HTTP cannot carry is `invalid_request` without a status: it was never sent.
"""

import re
from typing import Any, Final

UNREACHABLE: Final = "unreachable"
UNEXPECTED: Final = "unexpected_answer"
CHANGED: Final = "payload_changed"
WRONG: Final = "invalid_request"
_CODE: Final = re.compile(r"(?=.{1,64}\Z)[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def is_code(value: object) -> bool:
    """Whether something that was answered has the form of the service's codes: words of lower case, 64 characters."""
    return isinstance(value, str) and _CODE.fullmatch(value) is not None


class ServiceError(Exception):
    """A request that was not answered as asked.

    Args:
        code: the permanent name of what went wrong.
        detail: what happened and what to do next, for people and models.
        status: the HTTP status; None when there was no answer.
        extra: facts about this error that a program can use; also `request_id`.
        retry_after: seconds after which the same request may succeed, where the service says so.
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
