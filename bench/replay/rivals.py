"""Ways to make a request smaller: the service's, the usual ones, and those that LangChain ships."""

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, final

import httpx
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain.agents.middleware.summarization import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import (
    BaseMessage,
    RemoveMessage,
    convert_to_messages,
    convert_to_openai_messages,
    trim_messages,  # pyright: ignore[reportUnknownVariableType] - the framework's types
)
from langchain_core.runnables import RunnableLambda

from bench.replay.runs import Message, identifiers, words
from coatcheck.core.context.counting import ContextTokens, CountCache, Counter
from coatcheck.core.context.detect import index_of
from coatcheck.core.tokens import Tokenizer

KEEP: Final = 3
"""Tool results that clearing spares, as providers do by default."""
CLEARED: Final = "[cleared]"
MASKED_BUT: Final = 10
"""Observations that masking spares, as its authors chose it for SWE-agent (arXiv 2508.21433)."""
SUMMARY_NAMES: Final = 200
"""Identifiers of what it replaces that a summary holds: about 1,000 tokens."""

Edit = Callable[[str, list[Message], int | None], list[Message]]
"""From a run's name, a request's messages and a limit to the messages that are sent."""


class Rival(NamedTuple):
    """A way to make requests smaller."""

    name: str
    edit: Edit


class Sizer:
    """Tokens of requests, counted in one way for all."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts = CountCache()

    def each(self, messages: Sequence[Message]) -> list[int]:
        """Of each message."""
        body = {"messages": list(messages)}
        counter = Counter(self._tokenizer, self._counts)
        sizes: list[ContextTokens] = [counter.item(body, item) for item in index_of(body, "openai-chat").items]
        return [size.total for size in sizes]

    def total(self, messages: Sequence[Message]) -> int:
        """Of all of them."""
        return sum(self.each(messages))

    def of_langchain(self, messages: Sequence[BaseMessage]) -> int:
        """The same of LangChain's messages."""
        return self.total(_openai(messages))


def rivals(client: httpx.Client, sizer: Sizer) -> list[Rival]:
    """All of them, the service's first."""
    return [
        Rival("as it is", _same),
        Rival("coatcheck", _service(client, {})),
        Rival("coatcheck, cards at once", _service(client, {"protect": "none"})),
        Rival("oldest dropped", partial(_dropped, sizer)),
        Rival(f"results cleared but {KEEP}", partial(_cleared, sizer)),
        Rival(f"observations masked but {MASKED_BUT}", _masked),
        Rival("langchain trim_messages", partial(_trimmed, sizer)),
        Rival("langchain ClearToolUsesEdit", partial(_edited, sizer)),
        Rival("langchain Summarization", _Summaries(sizer)),
    ]


def _same(_run: str, messages: list[Message], _limit: int | None) -> list[Message]:
    return messages


def _service(client: httpx.Client, policy: dict[str, Any]) -> Edit:
    def edit(run: str, messages: list[Message], limit: int | None) -> list[Message]:
        asked = policy if limit is None else {**policy, "max_tokens": limit}
        body = {"model": "gpt-5", "messages": messages}
        answer = client.post("/v1/context/compact", json={"session": run, "policy": asked, "body": body})
        answer.raise_for_status()
        return answer.json()["body"]["messages"]

    return edit


def _dropped(sizer: Sizer, _run: str, messages: list[Message], limit: int | None) -> list[Message]:
    """Without the oldest messages after the system's, up to one after which the rest is within the limit."""
    if limit is None:
        return messages
    head = 1 if messages[0]["role"] == "system" else 0
    sizes = sizer.each(messages)
    total, start = sum(sizes), head
    while total > limit and start < len(messages) - 1:
        total -= sizes[start]
        start += 1
    while start < len(messages) - 1 and messages[start]["role"] == "tool":
        start += 1
    return [*messages[:head], *messages[start:]]


def _cleared(sizer: Sizer, _run: str, messages: list[Message], limit: int | None) -> list[Message]:
    """With all but the last tool results emptied: always without a limit, else once a request is over it."""
    if limit is not None and sizer.total(messages) <= limit:
        return messages
    results = [number for number, each in enumerate(messages) if each["role"] == "tool"]
    gone = set(results[:-KEEP])
    return [{**each, "content": CLEARED} if number in gone else each for number, each in enumerate(messages)]


def _masked(_run: str, messages: list[Message], _limit: int | None) -> list[Message]:
    """With a line in place of each tool result but the last few, whatever the limit is."""
    gone = set([number for number, each in enumerate(messages) if each["role"] == "tool"][:-MASKED_BUT])
    return [
        {**each, "content": f"Previous {len(words(each).splitlines())} lines omitted for brevity"}
        if number in gone
        else each
        for number, each in enumerate(messages)
    ]


def _trimmed(sizer: Sizer, _run: str, messages: list[Message], limit: int | None) -> list[Message]:
    if limit is None:
        return messages
    kept = trim_messages(
        convert_to_messages(messages), max_tokens=limit, token_counter=sizer.of_langchain, include_system=True
    )
    return _openai(kept)


def _edited(sizer: Sizer, _run: str, messages: list[Message], limit: int | None) -> list[Message]:
    edit = ClearToolUsesEdit() if limit is None else ClearToolUsesEdit(trigger=limit, keep=KEEP)
    found: list[Any] = convert_to_messages(messages)
    edit.apply(found, count_tokens=sizer.of_langchain)
    return _openai(found)


@final
class _Summaries:
    """LangChain's SummarizationMiddleware with its own numbers, triggered by the limit; it goes on with what it made.

    No model writes summaries here. In their place stand the identifiers that were said most often, which is more than
    a model's sentences keep of them, and what a summary costs is not counted.
    """

    def __init__(self, sizer: Sizer) -> None:
        self._sizer = sizer
        self._states: dict[str, tuple[int, list[BaseMessage]]] = {}

    def __call__(self, run: str, messages: list[Message], limit: int | None) -> list[Message]:
        head = messages[:1] if messages[0]["role"] == "system" else []
        if limit is None:
            return messages
        seen, state = self._states.get(run, (len(head), []))
        state = [*state, *convert_to_messages(messages[seen:])]
        count: Any = self._sizer.of_langchain
        middleware: Any = SummarizationMiddleware(
            FakeListChatModel(responses=["unused"]),
            summarizer=_SUMMARISER,
            trigger=("tokens", max(limit - self._sizer.total(head), 1)),
            token_counter=count,
        )
        update = middleware.before_model({"messages": state}, None)
        if update is not None:
            state = [each for each in update["messages"] if not isinstance(each, RemoveMessage)]
        self._states[run] = (len(messages), state)
        return [*head, *_openai(state)]


def _names(messages: list[BaseMessage]) -> str:
    tally = Tally(name for each in _openai(messages) for name in sorted(identifiers(words(each))))
    return ", ".join(name for name, _ in tally.most_common(SUMMARY_NAMES))


_SUMMARISER: Final[Any] = RunnableLambda(_names)


def _openai(messages: Sequence[BaseMessage]) -> list[Message]:
    return convert_to_openai_messages(messages)
