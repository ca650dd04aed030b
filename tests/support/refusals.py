"""Answers and errors that tests expect."""

from collections.abc import Awaitable
from typing import TypeVar

from coatcheck.core.errors import CoatcheckError, Code

T = TypeVar("T")


def expect(kind: type[T], answer: object) -> T:
    """The answer, which must be of this type."""
    assert isinstance(answer, kind), f"it answered {answer!r}"
    return answer


async def refusal(call: Awaitable[object]) -> CoatcheckError:
    """The expected error of a call; another outcome fails the test."""
    try:
        answer = await call
    except CoatcheckError as error:
        return error
    raise AssertionError(f"it answered {answer!r}")


async def code_of(call: Awaitable[object]) -> Code:
    """The code of the expected error."""
    return (await refusal(call)).code
