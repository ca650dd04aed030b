"""Ask for windows, and check what holds for every answer."""

import random
from itertools import pairwise
from typing import Any

from coatcheck.core.artifact import Caller
from coatcheck.usecases.reading.find_passages import FindPassages, PassagesAnswer
from coatcheck_client.contract.inert import inert
from reading.reading_harness import ReadingHarness

CALLER = Caller()
WORDS = ("river", "field", "morning", "people", "walked", "along", "bridge", "market", "stone", "quiet", "garden")


def filler(size: int, seed: int = 1) -> str:
    """Sentences that answer nothing, on lines of a few sentences."""
    rng = random.Random(seed)
    out: list[str] = []
    length = 0
    while length < size:
        sentence = " ".join(rng.choice(WORDS) for _ in range(rng.randint(6, 14))).capitalize()
        out.append(sentence + rng.choice([". ", ". ", ".\n"]))
        length += len(out[-1])
    return "".join(out)


def asking(shelf: ReadingHarness, **settings: Any) -> FindPassages:  # noqa: ANN401
    """The verb, on a clock that stands unless another is given: however slow the machine, no deadline comes."""
    settings.setdefault("clock", lambda: 0.0)
    return FindPassages(shelf.open_view, shelf.tokenizer, shelf.pool, **settings)


async def ask(shelf: ReadingHarness, data: bytes, query: str, max_tokens: int = 4_000, **said: Any) -> PassagesAnswer:  # noqa: ANN401
    """The answer for a payload, checked."""
    number = await shelf.put(data, **said)
    answer = await asking(shelf)(CALLER, number, query=query, max_tokens=max_tokens)
    check(shelf, data, answer, max_tokens)
    return answer


def check(shelf: ReadingHarness, data: bytes, answer: PassagesAnswer, max_tokens: int) -> None:
    """Within the budget; passages best first, apart from each other, each exactly what its ranges say."""
    assert answer.tokens == shelf.tokenizer.count(answer.text) <= max_tokens
    assert len(answer.text) <= 30_000
    scores = [passage.score for passage in answer.windows]
    assert scores == sorted(scores, reverse=True)
    extents = sorted((passage.window.bytes.start, passage.window.bytes.end) for passage in answer.windows)
    assert all(left[1] < right[0] for left, right in pairwise(extents))
    at = 0
    for passage in answer.windows:
        where = passage.window
        assert 0 <= where.bytes.start < where.bytes.end <= len(data)
        piece = data[where.bytes.start : where.bytes.end]
        shown = piece.decode("utf-8", "replace")
        assert passage.text == inert(shown)
        assert passage.exact == (passage.text.encode("utf-8", "replace") == piece)
        at = answer.text.index(passage.text.removesuffix("\n"), at) + 1
        assert where.lines.first == data.count(b"\n", 0, where.bytes.start) + 1
        assert where.lines.last == data.count(b"\n", 0, where.bytes.end - 1) + 1
        assert where.chars.start == sum(b & 0xC0 != 0x80 for b in data[: where.bytes.start])
        assert where.chars.end == sum(b & 0xC0 != 0x80 for b in data[: where.bytes.end])
        assert passage.score > 0
    ours = [line for line in answer.text.split("\n") if line.startswith("¦")]
    assert len(ours) == len(answer.windows) + (1 if ours and not _names_lines(ours[-1]) else 0)


def _names_lines(line: str) -> bool:
    return line.startswith(("¦ line ", "¦ lines "))
