"""Keeps a model's reads, which its client never saw, in the proxy's memory and puts them back into the next request.

The proxy answers reads itself, so the client's history lacks them. While the model works on a task and calls the
client's tools, each request gets the reads back, so that the model does not read the same again. Reads are found by the
client's key, the conversation before them, and the IDs of the calls that the client did see. A conversation that was
changed meanwhile gets no reads back; neither does one in which LiteLLM calls the model in another format than the
client uses. When the proxy ends, the reads are lost, and the model reads again.
"""

# ruff: noqa: ANN401 - LiteLLM's cache
# pyright: basic

import hashlib
from typing import Any, Final, NamedTuple

from coatcheck_client.citations import texts
from coatcheck_client.contract.cards import is_own
from coatcheck_client.contract.json_values import is_among
from coatcheck_client.integrations.litellm.formats import Format
from coatcheck_client.integrations.litellm.messages import Raw, is_models

_SECONDS: Final = 24 * 3_600
"""Seconds for which reads are kept."""


class Unseen(NamedTuple):
    """The parts of one turn of a model that the client does not see."""

    before: list[Raw]
    """Messages before the turn: the model's reads, and the answers to them."""
    calls: list[Raw]
    """Reads among the turn's calls."""
    answers: list[Raw]
    """The answers to `calls`."""


class Conversation:
    """The messages of a request, as its client sent them."""

    def __init__(self, key: str | None, messages: list[Raw]) -> None:
        """`key`: the client's key, as LiteLLM hashes it. With it, one client never gets the reads of another."""
        self.messages = messages
        running = hashlib.sha256(repr(key).encode())
        self.digests: list[str] = []
        """For each message, a digest of the conversation before it, without the model's own messages."""
        for message in messages:
            self.digests.append(running.hexdigest())
            if not is_models(message):
                running.update(repr(texts(message)).encode("utf-8", "replace"))
        self.digest = running.hexdigest()


def trailing(form: Format, messages: list[Raw]) -> list[Raw]:
    """Returns the reads, with their answers, that follow the client's last message at the end of a request."""
    start = at = len(messages)
    while at > 0 and (turn := _turn_before(messages, at)) is not None:
        calls = [call for message in messages[turn:at] for call in form.calls_of(message)]
        if not calls or not all(is_own(form.name_of(call)) for call in calls):
            break
        start = at = turn
    return messages[start:]


def _turn_before(messages: list[Raw], end: int) -> int | None:
    """Returns the index where the model's last turn before `end` begins; None if anything but results follows it."""
    at = end
    while at > 0 and not is_models(messages[at - 1]):
        at -= 1
    if at == end or any(_has_instruction(one) for one in messages[at:end]):
        return None
    while at > 0 and is_models(messages[at - 1]):
        at -= 1
    return at


def _has_instruction(message: Raw) -> bool:
    """Returns whether a message contains more than results."""
    content = message.get("content")
    blocks = content if message.get("role") == "user" and isinstance(content, list) else []
    return is_among(message.get("role"), {"user", "system", "developer"}) and not (
        blocks and all(one.get("type") == "tool_result" for one in blocks)
    )


async def keep(cache: Any, form: Format, conversation: str, ids: list[str], what: Unseen) -> None:
    """Keeps the unseen parts of a turn. `ids` are the IDs of those calls of the turn that the client sees."""
    await cache.async_set_cache(_name(form, conversation, ids), what, ttl=_SECONDS)


async def put_back(cache: Any, form: Format, seen: Conversation) -> list[Raw]:
    """Returns the messages of a request, with the kept parts that its client did not see."""
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
