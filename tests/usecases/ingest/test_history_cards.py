"""The card of an output that stands in a history shows what the card showed that the output's ingest gave."""

import random
from collections.abc import Callable

import pytest
from msgspec import structs

from coatcheck.core.context.replaceable import PlannedPayload
from coatcheck.storing.find import Find
from coatcheck.storing.ingest_request import Receipt
from coatcheck.usecases.payloads.find_or_ingest import FindOrIngest, PayloadCard, PayloadRetention
from support.harness import CALLER, Harness

KIB = 1024
FAILURE = "error[E0425]: cannot find value `cloakroom` in this scope"


def build(size: int, seed: int) -> str:
    """A build whose only failure is in the middle, behind any sample of its ends."""
    rng = random.Random(seed)
    out: list[str] = []
    written = 0
    while written < size:
        out.append(
            f"[{len(out):06}] compiling crate-{rng.randrange(900)} v{rng.randrange(9)}.{rng.randrange(99)} in 3 ms"
        )
        written += len(out[-1]) + 1
    middle = len(out) // 2
    out[middle:middle] = [FAILURE, f"  --> src/hooks/r{seed}.rs:212:17"]
    return "\n".join(out) + "\n"


def levels(size: int, seed: int) -> str:
    rng = random.Random(seed)
    level = ["INFO"] * 40 + ["WARN", "ERROR"]
    line = "2026-03-01T12:00:{:02}Z {} worker-{} handled request {} in {} ms"
    count = size // 60
    return "\n".join(line.format(n % 60, rng.choice(level), n % 7, n, rng.randrange(900)) for n in range(count)) + "\n"


def wide(size: int, seed: int) -> str:
    """Lines longer than any block in which a payload is looked at, with a failure between them."""
    rng = random.Random(seed)
    line = " ".join(f"word{rng.randrange(5_000)}" for _ in range(size // 9))
    return f"start\n{line}\n{FAILURE}\n{line}\nTraceback (most recent call last):\nKeyError: 'hook'\ndone\n"


def progress(size: int, seed: int) -> str:
    del seed
    bars = "".join(f"\r{n:3}% [{'=' * (n // 2):50}]" for n in range(101))
    return "\n".join(f"{n} layer {bars}" for n in range(size // len(bars) + 1)) + f"\n{FAILURE}\nexit status 1\n"


OUTPUTS: dict[str, Callable[[int, int], str]] = {"build": build, "levels": levels, "wide": wide, "progress": progress}


def in_history(text: str, *, tool: str = "bash", command: str | None = "make all") -> PlannedPayload:
    return PlannedPayload(
        key="k",
        kind="output",
        why="oversized",
        message=1,
        role="tool",
        content=text,
        tool=tool,
        call_id="call_1",
        command=command,
        failed=False,
        sites=(),
        tokens=0,
    )


def step(harness: Harness) -> FindOrIngest:
    """The step as the composition makes it, which remembers nothing yet."""
    find = Find(harness.catalog, harness.clock, harness.reads)
    return FindOrIngest(harness.ingest(), harness.deps(), find, None)


async def ingested(harness: Harness, text: str, session: str, budget: int, *, tool: str = "bash") -> Receipt:
    said = {"tool_name": tool, "tool_call_id": "call_1", "command": "make all", "session": session}
    return await harness.put(text.encode(), said=said, card_tokens=budget, inline_tokens=0)


async def carded(harness: Harness, payload: PlannedPayload, session: str, budget: int) -> PayloadCard:
    return (await step(harness)(CALLER, [payload], PayloadRetention(session=session), budget))[payload.key]


def evidence(text: str | None, artifact: str | None) -> str:
    """A card without the ID of its artifact."""
    assert text is not None
    assert artifact is not None
    assert artifact in text
    return text.replace(artifact, "art_…")


@pytest.mark.parametrize("budget", [256, 600])
@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("size", [520 * KIB, 1_700 * KIB], ids=["just over 512 KiB", "several blocks"])
async def test_a_history_shows_of_a_large_output_what_its_ingest_showed(
    harness: Harness, name: str, size: int, budget: int
) -> None:
    text = OUTPUTS[name](size, budget)
    assert len(text) > 512 * KIB
    receipt = await ingested(harness, text, "posted", budget)
    found = await carded(harness, in_history(text), "posted", budget)
    first = await carded(harness, in_history(text), "only in a history", budget)
    assert (found.id, found.created, found.text) == (receipt.id, False, receipt.text)
    assert (first.created, found.tokens) == (True, receipt.tokens)
    assert evidence(first.text, first.id) == evidence(receipt.text, receipt.id)
    assert (await carded(harness, in_history(text), "only in a history", budget)).text == first.text


@pytest.mark.parametrize("name", ["build", "wide", "progress"])
async def test_a_failure_in_the_middle_of_a_large_output_is_on_its_card_in_a_history(
    harness: Harness, name: str
) -> None:
    text = OUTPUTS[name](1_700 * KIB, 3)
    found = await carded(harness, in_history(text), "failed", 600)
    assert FAILURE in (found.text or "")


async def test_a_history_that_says_other_things_of_a_large_output_shows_what_its_own_ingest_would(
    harness: Harness,
) -> None:
    text = build(900 * KIB, 5)
    await ingested(harness, text, "declared", 600, tool="read_file")
    found = await carded(harness, in_history(text), "declared", 600)
    assert not found.created
    receipt = await ingested(harness, text, "as the history", 600)
    assert evidence(found.text, found.id) == evidence(receipt.text, receipt.id)
    without = await carded(harness, structs.replace(in_history(text), command=None), "declared", 600)
    assert "make all" not in (without.text or "")
