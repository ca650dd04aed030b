"""The one exception of the client: a sentence, and a code that never changes.

The service's own codes are passed on as they are (docs/errors.md). Beside them stand `unreachable` (nobody answered, or
the connection broke), `unexpected_answer` (who answered is no Coatcheck, or one of another release) and
`digest_mismatch` where a download is not what was stored.
"""

from typing import Any, Final

UNREACHABLE: Final = "unreachable"
UNEXPECTED: Final = "unexpected_answer"


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
