"""What of a body could be replaced, whatever its age: texts of outputs, arguments of completed calls, images.

Each candidate is one replacement with one payload, at one place or at all copies of it. What is not a candidate though
it is large is named with the reason: exempt, a read, ours already, run by the provider, no call to be completed.
"""

import json
from collections.abc import Iterator
from typing import Final, Literal, final

from msgspec import Struct

from coatcheck.core.context import signs
from coatcheck.core.context.command import command_of
from coatcheck.core.context.counting import MEDIA, Counter, escaped
from coatcheck.core.context.inner import MAX_DEPTH, parsed
from coatcheck.core.context.model import HistoryCall, HistoryIndex, Media, Output, Piece
from coatcheck.core.context.pairs import Pairs
from coatcheck.core.context.pointer import Pointer, get, render
from coatcheck.core.context.policy import CompactionPolicy, same_tool
from coatcheck.core.context.shape import Value, as_list, as_object, is_utf8, serialised

MARKER_TOKENS: Final = 32
"""Tokens of a marker or a placeholder, at most."""
_HALVES: Final = "holds halves of surrogate pairs, which cannot be stored"
_GROUPED_CHARS: Final = 200
"""Characters from which a small part of a long list is worth a marker."""

Kind = Literal["output", "arguments", "media"]
Why = Literal["oversized", "many parts", "completed call", "media"]


class ReplacementSite(Struct, frozen=True, gc=False):
    """Where a text to be replaced stands, and what takes its place."""

    at: Pointer
    inside: Pointer = ()
    shows: Literal["card", "marker", "whole"] = "card"
    """`whole`: the card in an object that replaces the object at `at`."""
    characters: int = 0
    """Of the text that stands there."""
    counted: bool = True
    """False for another copy of a call's arguments, which no provider is sent."""


class ReplaceablePayload(Struct, frozen=True, kw_only=True, gc=False):
    """A payload in a body, and the places of which it can be taken out."""

    kind: Kind
    why: Why
    message: int
    """The number of its message in the body's list."""
    places: tuple[ReplacementSite, ...]
    content: Value
    """As ingest takes it: text, one part, or a list of parts."""
    tool: str | None
    call_id: str | None
    command: str | None = None
    """The arguments of its call in short, where it is a call's output."""
    failed: bool = False
    media: Media | None = None
    tokens: int


class ReplacementCandidate(ReplaceablePayload, frozen=True, kw_only=True, gc=False):
    """One possible replacement."""

    ready: int
    """The number of messages after which all that belongs to it is there: up to its own, or its last output's."""
    saves: int
    """Tokens that the replacement saves at least."""


class Left(Struct, frozen=True):
    """Something large that stays, and why."""

    pointer: str
    """In the body that was given."""
    tokens: int
    why: str
    message: int | None = None
    """The number of its message."""


@final
class Candidates:
    """Everything in a body that a policy could replace.

    Attributes:
        candidates: in the order of the body.
        left: what is large and no candidate.
        copied: pointers to arguments of calls without an output in which the model repeats a marker of ours.
    """

    def __init__(
        self, body: Value, index: HistoryIndex, pairs: Pairs, policy: CompactionPolicy, counter: Counter
    ) -> None:
        self.candidates: list[ReplacementCandidate] = []
        self.left: list[Left] = []
        self.copied: list[str] = []
        self._body = body
        self._policy = policy
        self._counter = counter
        self._calls = {id(one.output): one.call for one in pairs.pairs}
        self._done: dict[int, int] = {}
        for one in pairs.pairs:
            both = max(one.output_item, one.call_item) + 1
            self._done[id(one.call)] = max(self._done.get(id(one.call), 0), both)
        self._shaped = {
            str(tool.get("name")) for tool in index.declared() if "output_schema" in tool or "outputSchema" in tool
        }
        for number, item in enumerate(index.items):
            self._number = number
            for call in item.calls:
                self._call(number, call)
            for output in item.outputs:
                self._output(number, output)

    # ------------------------------------------------------------------------------------------------ outputs

    def _output(self, number: int, output: Output) -> None:
        call = self._calls.get(id(output))
        tool = output.name or (call.name if call else None)
        reason = self._spared(tool, server=output.server)
        small: list[Piece] = []
        for piece in output.pieces:
            tokens = self._counter.piece(piece.text)
            stays = reason or self._recognised(piece, tool)
            if stays is not None:
                self._leave(piece.at, tokens, stays)
            elif tokens > self._policy.inline_tokens:
                place = ReplacementSite(piece.at, piece.inside, characters=len(piece.text))
                self._add_output(number, output, tool, (place,), piece.text, tokens, "oversized")
            else:
                small.append(piece)
        self._many(number, output, tool, small)
        for media in output.media:
            self._media(number, output, tool, media, reason)
        for value in output.data:
            self._leave(output.at, self._counter.json(value), reason or "a part of it has no form that is known")

    def _spared(self, tool: str | None, *, server: bool) -> str | None:
        if server and not self._policy.server_tools:
            return "the provider ran this tool"
        if same_tool(tool, self._policy.exempt_tools):
            return "the tool is exempt"
        return "the tool declares the schema of its output" if tool in self._shaped else None

    def _recognised(self, piece: Piece, tool: str | None) -> str | None:
        if signs.is_ours(piece.text):
            return "is a card or a marker already"
        if not is_utf8(piece.text):
            return _HALVES
        return "was read back from an artifact" if signs.is_read(piece.text, tool) else None

    def _many(self, number: int, output: Output, tool: str | None, small: list[Piece]) -> None:
        """Parts that are each small enough but too much together: one card, and a marker for each other part."""
        tokens = sum(self._counter.piece(piece.text) for piece in small)
        if tokens <= self._policy.inline_tokens:
            return
        if output.whole is not None and len(small) == len(output.pieces):
            place = ReplacementSite(output.whole, shows="whole")
            content = serialised(get(self._body, output.whole))
            if is_utf8(content):
                self._add_output(number, output, tool, (place,), content, tokens, "many parts")
            return
        worth = [piece for piece in small if len(piece.text) > _GROUPED_CHARS and not piece.inside]
        counted = [self._counter.piece(piece.text) for piece in worth]
        saves = sum(counted) - self._policy.card_tokens - MARKER_TOKENS * len(worth)
        if len(worth) < 2 or saves <= 0 or any(piece.structured for piece in worth):  # noqa: PLR2004 - one is not many
            self._leave(output.at, tokens, "many small parts, too small to be replaced one by one")
            return
        first, *others = worth
        places = [ReplacementSite(first.at, characters=len(first.text))]
        places += [ReplacementSite(piece.at, shows="marker", characters=len(piece.text)) for piece in others]
        content = [{"type": "text", "text": piece.text} for piece in worth]
        self._add_output(number, output, tool, tuple(places), content, sum(counted), "many parts", saves)

    def _add_output(
        self,
        number: int,
        output: Output,
        tool: str | None,
        places: tuple[ReplacementSite, ...],
        content: Value,
        tokens: int,
        why: Why,
        saves: int | None = None,
    ) -> None:
        self.candidates.append(
            ReplacementCandidate(
                kind="output",
                why=why,
                message=number,
                ready=number + 1,
                places=places,
                content=content,
                tool=tool,
                call_id=output.call_id,
                command=self._command(output),
                failed=output.failed,
                tokens=tokens,
                saves=tokens - self._policy.card_tokens if saves is None else saves,
            )
        )

    def _command(self, output: Output) -> str | None:
        call = self._calls.get(id(output))
        return command_of(get(self._body, call.sites[0].at)) if call is not None and call.sites else None

    def _media(self, number: int, output: Output, tool: str | None, media: Media, reason: str | None) -> None:
        if self._policy.media == "keep" or reason is not None:
            return
        if not media.size or media.text_type is None:
            self._leave(media.at, MEDIA, "no bytes to store" if not media.size else "no text can stand here")
            return
        self.candidates.append(
            ReplacementCandidate(
                kind="media",
                why="media",
                message=number,
                ready=number + 1,
                places=(ReplacementSite(media.at, shows="marker"),),
                content=[media.part],
                tool=tool,
                call_id=output.call_id,
                command=self._command(output),
                failed=output.failed,
                media=media,
                tokens=MEDIA,
                saves=MEDIA - MARKER_TOKENS,
            )
        )

    # ---------------------------------------------------------------------------------------------- arguments

    def _call(self, number: int, call: HistoryCall) -> None:
        done = self._done.get(id(call))
        texts = list(self._texts(call))
        if done is None:
            self.copied.extend(render(place.at) for place, text in texts if signs.marker_in(text))
        fields = [name for rule in self._policy.arguments if same_tool(call.name, rule.tools) for name in rule.fields]
        if not fields or self._spared(call.name, server=call.server) == "the tool is exempt":
            return
        places: dict[str, list[ReplacementSite]] = {}
        for place, text in texts:
            named = [step for step in (*place.at, *place.inside) if isinstance(step, str)]
            if "*" in fields or (named and named[-1] in fields):
                places.setdefault(text, []).append(place)
        for text, where in places.items():
            self._argument(number, call, done, text, tuple(where))

    def _argument(
        self, number: int, call: HistoryCall, done: int | None, text: str, places: tuple[ReplacementSite, ...]
    ) -> None:
        tokens = self._counter.text(text)
        if tokens <= self._policy.argument_tokens or signs.is_marker(text):
            return
        if done is None:
            self._leave(places[0].at, tokens, "the call has no output yet")
            return
        if call.server and not self._policy.server_tools:
            self._leave(places[0].at, tokens, "the provider made this call")
            return
        if not is_utf8(text):
            self._leave(places[0].at, tokens, _HALVES)
            return
        weighed = self._written(text, places[0]) if places[0].inside else tokens
        counted = any(place.counted for place in places)
        self.candidates.append(
            ReplacementCandidate(
                kind="arguments",
                why="completed call",
                message=number,
                ready=done,
                places=places,
                content=text,
                tool=call.name,
                call_id=call.call_id,
                tokens=weighed,
                saves=weighed - MARKER_TOKENS if counted else 0,
            )
        )

    def _written(self, text: str, place: ReplacementSite) -> int:
        """Tokens of a text as it is written in a JSON document that is itself a string."""
        around = get(self._body, place.at)
        return escaped(self._counter.text(json.dumps(text, ensure_ascii=str(around).isascii())))

    def _texts(self, call: HistoryCall) -> Iterator[tuple[ReplacementSite, str]]:
        """Every string in every copy of a call's arguments."""
        for copy, site in enumerate(call.sites):
            value = get(self._body, site.at)
            if site.form == "text":
                yield ReplacementSite(site.at, shows="marker", characters=len(value), counted=not copy), value
                continue
            inside = site.form == "json"
            document = parsed(value) if inside else value
            if inside and not isinstance(document, dict | list):
                self._leave(site.at, self._counter.text(value), "the arguments are no JSON document")
                continue
            for steps, text in _strings(document):
                at, within = (site.at, steps) if inside else ((*site.at, *steps), ())
                yield ReplacementSite(at, within, "marker", len(text), not copy), text

    def _leave(self, at: Pointer, tokens: int, why: str) -> None:
        if tokens > self._policy.inline_tokens and why != "is a card or a marker already":
            self.left.append(Left(render(at), tokens, why, self._number))


def _strings(document: Value, steps: Pointer = ()) -> Iterator[tuple[Pointer, str]]:
    """The strings in a document and where they are, down to a bounded depth."""
    if isinstance(document, str):
        yield steps, document
    elif len(steps) < MAX_DEPTH:
        for key, value in as_object(document).items():
            yield from _strings(value, (*steps, key))
        for number, value in enumerate(as_list(document)):
            yield from _strings(value, (*steps, number))
