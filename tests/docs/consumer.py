"""A program that checks the client's types: each line that a checker must refuse says so, and a needless remark fails.

Only checkers read it: `test_types.py` gives it to pyright and to mypy.
"""

import io
from collections.abc import AsyncGenerator, Iterator
from typing import Any, assert_type

from coatcheck_client import (
    AsyncClient,
    Client,
    Compacted,
    EmbeddedError,
    Receipt,
    Retries,
    ServiceError,
    declarations,
    embedded,
    is_card,
)
from coatcheck_client.citations import AnswerReport
from coatcheck_client.results import Artifact, Described, Found, Notice, Read, SearchResults


def blocking(coatcheck: Client, remembered: list[str]) -> None:
    """Uses the client that blocks."""
    receipt = coatcheck.put("output", tool_name="bash", ttl="12h", card_tokens=300)
    assert_type(receipt, Receipt)
    assert_type(receipt.warnings, tuple[Notice, ...])
    if receipt.stored:
        remembered.append(receipt.id)
    assert_type(coatcheck.put_stream(io.BytesIO(b"output")).id, str)
    assert_type(coatcheck.read(receipt.id, unit="line", limit=20), Read)
    assert_type(coatcheck.search(receipt.id, "error", context=2), Found)
    assert_type(coatcheck.describe(receipt.id), Described)
    assert_type(coatcheck.content(receipt.id), bytes)
    cursor = None
    while (page := coatcheck.artifacts(cursor=cursor)).items:
        cursor = page.next
    assert_type(coatcheck.stream(receipt.id), Iterator[bytes])
    assert_type(coatcheck.each_artifact(session="run-42"), Iterator[Artifact])
    assert_type(coatcheck.read_artifact(receipt.id, pattern="error"), str)
    assert_type(coatcheck.carder()("output", tool_name="bash"), str)
    assert_type(coatcheck.compact({"messages": []}), Compacted)
    searched = coatcheck.search_results({"results": []}, query="tides")
    assert_type(searched, SearchResults)
    assert_type(coatcheck.read(searched.id).text, str)
    assert_type(coatcheck.check_answer("It is so.", [searched.text]), AnswerReport)
    assert_type(coatcheck.admin.create_key("agent", ["read"]), dict[str, Any])
    coatcheck.put("output", tool="bash")  # type: ignore[call-arg]
    coatcheck.read(None)  # type: ignore[arg-type]
    coatcheck.read(receipt.id, unit="page")  # type: ignore[arg-type]
    coatcheck.read(receipt)  # type: ignore[arg-type]
    receipt.stored = True  # type: ignore[misc]


async def awaited(coatcheck: AsyncClient, remembered: list[str]) -> None:
    """Uses the client on an event loop."""
    receipt = await coatcheck.put("output", tool_name="bash")
    assert_type(receipt, Receipt)
    assert_type((await coatcheck.read(receipt.id)).text, str)
    assert_type(coatcheck.stream(receipt.id), AsyncGenerator[bytes])
    assert_type(await coatcheck.carder()("output"), str)
    assert_type(await coatcheck.admin.create_key("agent", ["read"]), dict[str, Any])
    remembered.append(coatcheck.read(receipt.id).text)  # type: ignore[attr-defined]


async def embedding() -> None:
    """Uses what else is public."""
    try:
        with embedded("./coatcheck-data", session="run-42") as here:
            assert_type(here, Client)
        async with embedded() as there:
            assert_type(there, AsyncClient)
        embedded(key=None, retries=Retries(attempts=1), deadline=3, on_unreachable="original")
        embedded(dead_line=3)  # type: ignore[call-arg]
        embedded(deadline="soon")  # type: ignore[arg-type]
        embedded(url="http://127.0.0.1:8321")  # type: ignore[call-arg]
        with Client(retries=Retries(attempts=1)) as one:
            assert_type(one, Client)
    except EmbeddedError as error:
        assert_type(str(error), str)
    except ServiceError as error:
        assert_type(error.code, str)
    assert_type(declarations("anthropic"), list[dict[str, Any]])
    assert_type(is_card("text"), bool)
