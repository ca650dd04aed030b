"""Errors that tests expect."""

from collections.abc import Awaitable

from coatcheck.core.errors import CoatcheckError, Code


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
