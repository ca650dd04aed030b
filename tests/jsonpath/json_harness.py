"""Documents behind the real use case, and the same questions asked of values in memory."""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from coatcheck.core.artifact import Kind
from coatcheck.core.jsonpath.children import collect
from coatcheck.core.jsonpath.filters import evaluate
from coatcheck.core.jsonpath.page import PageRequest, Resume, ValuePage
from coatcheck.core.jsonpath.parse import parse_path
from coatcheck.core.jsonpath.query import Effort, normalize_path, plan_of, steps
from coatcheck.core.jsonpath.walk import over
from coatcheck.usecases.reading.read_json import JsonAnswer, ReadJson
from reading.reading_harness import ReadingHarness, ReadingStore
from support.harness import CALLER


class JsonHarness(ReadingHarness):
    """Where tests put documents, and ask for values."""

    def __init__(self, store: ReadingStore, clock: Callable[[], float] | None = None) -> None:
        super().__init__(store)
        timing: dict[str, Any] = {} if clock is None else {"clock": clock}
        self.json_reader = ReadJson(self.open_view, self.tokenizer, self.pool, **timing)

    async def put_json(self, value: object) -> int:
        return await self.put(dumps(value), kind=Kind.JSON)

    async def ask(self, number: int, path: str, **ask: Any) -> JsonAnswer:  # noqa: ANN401
        answer = await self.json_reader(CALLER, number, path=path, **ask)
        assert answer.tokens == self.tokenizer.count(answer.text) <= ask.get("max_tokens", 4_000)
        assert len(answer.text) <= 30_000
        return answer

    async def every_page(self, number: int, path: str, **ask: Any) -> list[JsonAnswer]:  # noqa: ANN401
        """Follow `next` to the end."""
        pages = [await self.ask(number, path, **ask)]
        while pages[-1].next is not None:
            pages.append(await self.ask(number, path, cursor=pages[-1].next, **ask))
            assert pages[-1].next != pages[-2].next
        return pages


def dumps(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def shown(answer: JsonAnswer) -> list[Any]:
    """The complete values of an answer."""
    return [msgspec.json.decode(v.value) for v in answer.values if isinstance(v.value, msgspec.Raw)]


def body(text: str) -> str:
    """An answer's text without its heading."""
    return text.split("\n", 1)[1]


def plainly(value: object, path: str) -> list[tuple[str, object]]:
    """Normalized paths and values, by evaluation of the whole query in memory."""
    nodes = evaluate(parse_path(path).segments, (None, value), value, Effort(lambda: 0.0, 1))
    return [(normalize_path(steps(location)), found) for location, found in nodes]


def page_of(
    data: bytes, path: str, *, limit: int = 10**6, chars: int = 10**9, resume: Resume | None = None
) -> ValuePage:
    """One page of a document at hand, without a time limit."""
    ask = PageRequest(plan=plan_of(parse_path(path)), size=len(data), limit=limit, chars=chars, resume=resume)
    return over(data, collect(ask, lambda: 0.0))
