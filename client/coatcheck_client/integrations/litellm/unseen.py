"""What a model read that its client never saw: kept in the proxy's memory, and put back into the next request.

A client's history lacks the reads that were answered for it. While the model is at its task, calling the client's
tools, each request gets them back, so that the model does not read the same again. They are found by the key of the
client, what the conversation says up to there, and the IDs of the calls that the client did see; a conversation that
was changed since gets none, nor does one whose model LiteLLM calls in another format than its client uses. They are
lost when the proxy ends. The model then reads again.
"""

# ruff: noqa: ANN401 - LiteLLM's cache
# pyright: basic

import hashlib
from typing import Any, Final, NamedTuple

from coatcheck_client.citations import texts
from coatcheck_client.contract.cards import is_own
from coatcheck_client.integrations.litellm.formats import Format
from coatcheck_client.integrations.litellm.messages import Raw, is_models

_SECONDS: Final = 24 * 3_600


class Unseen(NamedTuple):
    """What belongs to one turn of a model."""

    before: list[Raw]
    """Messages before it: the model's reads, and their answers."""
    calls: list[Raw]
    """Reads among its calls."""
    answers: list[Raw]
    """The answers to these."""


class Conversation:
    """The messages of a request, as its client sent them."""

    def __init__(self, key: str | None, messages: list[Raw]) -> None:
        """`key`: the client's, as LiteLLM hashes it. What one client's models read is never given to another's."""
        self.messages = messages
        running = hashlib.sha256(repr(key).encode())
        self.digests: list[str] = []
        """Digests of the conversation before each message."""
        for message in messages:
            self.digests.append(running.hexdigest())
            if not is_models(message):
                running.update(repr(texts(message)).encode("utf-8", "replace"))
        self.digest = running.hexdigest()


def trailing(form: Format, messages: list[Raw]) -> list[Raw]:
    """Returns the reads at the end of a request, with their answers, after the last message of the client."""
    start = at = len(messages)
    while at > 0 and (turn := _turn_before(messages, at)) is not None:
        calls = [call for message in messages[turn:at] for call in form.calls_of(message)]
        if not calls or not all(is_own(form.name_of(call)) for call in calls):
            break
        start = at = turn
    return messages[start:]


def _turn_before(messages: list[Raw], end: int) -> int | None:
    """Returns where the last turn of the model begins, if results follow it; None if the client's words come last."""
    at = end
    while at > 0 and not is_models(messages[at - 1]):
        at -= 1
    if at == end or any(_has_instruction(one) for one in messages[at:end]):
        return None
    while at > 0 and is_models(messages[at - 1]):
        at -= 1
    return at


def _has_instruction(message: Raw) -> bool:
    """Returns whether a message says more than results."""
    content = message.get("content")
    blocks = content if message.get("role") == "user" and isinstance(content, list) else []
    return message.get("role") in {"user", "system", "developer"} and not (
        blocks and all(one.get("type") == "tool_result" for one in blocks)
    )


async def keep(cache: Any, form: Format, conversation: str, ids: list[str], what: Unseen) -> None:
    """Keeps what a client does not see of a turn in which it sees calls with these IDs."""
    await cache.async_set_cache(_name(form, conversation, ids), what, ttl=_SECONDS)


async def put_back(cache: Any, form: Format, seen: Conversation) -> list[Raw]:
    """Returns the messages of a request, with what its client did not see."""
    messages, at = list(seen.messages), len(seen.messages)
    while at > 0:  # from the end, so that insertions do not move what is still to be examined
        end = at
        while at > 0 and is_models(seen.messages[at - 1]):
            at -= 1
        ids = [form.id_of(call) for message in seen.messages[at:end] for call in form.calls_of(message)]
        kept: Unseen | None = await cache.async_get_cache(_name(form, seen.digests[at], ids)) if ids else None
        if kept is not None:
            messages[at:] = [*kept.before, *form.joined(messages[at:end], kept.calls, kept.answers, messages[end:])]
        if at == end:
            at -= 1
    return messages


def _name(form: Format, conversation: str, ids: list[str]) -> str:
    return f"coatcheck:{hashlib.sha256(repr((form.name, conversation, sorted(ids))).encode()).hexdigest()}"
