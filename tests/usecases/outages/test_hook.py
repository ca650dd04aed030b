"""A host's hook when storage does not do as it should: nothing changes for the host, and nobody waits long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.ports.catalog import Catalog
from coatcheck.usecases.context.answer_hook import HookRequest, answer_hook
from support.harness import CALLER, Harness

EVENT = {
    "hook_event_name": "PostToolUse",
    "tool_name": "Bash",
    "tool_response": {"stdout": "a line\n" * 5_000, "stderr": "", "interrupted": False},
}


class Away:
    """A catalogue of which every call ends as it is told to."""

    def __init__(self, end: Callable[[], Awaitable[None]]) -> None:
        self._end = end

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a catalogue has
        async def call(*_: object, **__: object) -> None:
            await self._end()

        return call


async def test_a_result_is_carded_while_storage_stores(harness: Harness) -> None:
    answer = await answer_hook(harness.ingest(), CALLER, EVENT, HookRequest())
    assert answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"].startswith("[art_")


async def test_the_answer_of_a_search_of_ours_is_left_to_the_model(harness: Harness) -> None:
    text = (
        "¦ Search: 3 results, 3 shown. Stored outside this conversation as art_407752663454602351\n" + "word " * 9_000
    )
    event = {**EVENT, "tool_name": "mcp__search__web", "tool_response": [{"type": "text", "text": text}]}
    assert await answer_hook(harness.ingest(), CALLER, event, HookRequest()) == {}


@pytest.mark.parametrize("code", [Code.STORAGE_UNAVAILABLE, Code.STORAGE_FULL, Code.OVERLOADED, Code.INTEGRITY])
async def test_a_store_that_refuses_changes_nothing(harness: Harness, code: Code) -> None:
    async def refuse() -> None:
        raise CoatcheckError(code, "No.")

    ingest = harness.ingest(catalog=cast("Catalog", Away(refuse)))
    assert await answer_hook(ingest, CALLER, EVENT, HookRequest()) == {}


async def test_a_store_that_is_silent_is_not_waited_for(harness: Harness) -> None:
    never = asyncio.Event()

    async def wait() -> None:
        await never.wait()

    ingest = harness.ingest(catalog=cast("Catalog", Away(wait)))
    assert await answer_hook(ingest, CALLER, EVENT, HookRequest(), seconds=0.05) == {}
