"""Finds what a policy could replace in a body, regardless of age: reads, searches, outputs, arguments, media, messages.

Each candidate is one replacement with one payload, at one site or several: all copies of the same content, or several
parts of one output. A large value that is not a candidate is reported with the reason: for example, its tool is exempt,
the provider ran its tool, or its call is not complete. Our own texts are neither candidates nor reported.
"""

from typing import Any, Final, final

from coatcheck.core.context import signs
from coatcheck.core.context.arguments import ArgumentReader, ArgumentUnit
from coatcheck.core.context.body.encoding import Object, Value, as_object, is_utf8, serialise_canonical
from coatcheck.core.context.body.model import HistoryCall, HistoryIndex, Item, Media, Output, Piece, Role
from coatcheck.core.context.body.splice import Pointer, get, parse_document, render
from coatcheck.core.context.command import command_of, file_of, reads_file, subject_of
from coatcheck.core.context.counting import Counter
from coatcheck.core.context.notice import carrier_of
from coatcheck.core.context.policy import CompactionPolicy, same_tool
from coatcheck.core.context.references import KnownArtifacts
from coatcheck.core.context.replaceable import ReplacementCandidate, ReplacementSite, UnreplacedItem
from coatcheck.core.context.timeline import Pairs
from coatcheck.core.read_answer import read_answer_of
from coatcheck.core.text.long_text import is_text

MARKER_TOKENS: Final = 32
"""Approximate maximum tokens of a marker or a placeholder."""
_MIN_OUTPUT_TOKENS: Final = 100
"""Tokens from which a marker replaces an output under pressure: three times MARKER_TOKENS."""
_MIN_ARGUMENT_TOKENS: Final = 300
"""Tokens from which a marker replaces an argument under pressure. More than for outputs, since the model knows the
argument as its own text."""
_HALVES: Final = "holds halves of surrogate pairs, which cannot be stored"
_MIN_GROUPED_CHARS: Final = 200
"""Characters above which a marker replaces a small part of an output with many parts."""
_MIN_PASSAGE_CHARS: Final = 24
"""Characters above which a passage of a search is replaced together with the search's first part."""
_MESSAGE_FACTOR: Final = 2
"""A message with more than this multiple of `inline_tokens` can lose its middle; a shorter one stays whole."""


@final
class Candidates:
    """Everything in a body that a policy could replace.

    Attributes:
        candidates: the candidates, in the order of the body.
        left: the large values that are no candidates, with reasons.
        compacted: the first message that shows an earlier compaction; the number of messages if there is none.
        first_card: the first message with a card, a marker or a summary of ours; the number of messages if there is
            none. Such a text need not come from a compaction: a host may put a card there when the output arrives.
        copied: pointers to arguments in which the model repeats one of our markers, in calls that have no output yet.
    """

    def __init__(
        self,
        body: Value,
        index: HistoryIndex,
        pairs: Pairs,
        policy: CompactionPolicy,
        counter: Counter,
        known_artifacts: KnownArtifacts | None = None,
    ) -> None:
        self.candidates: list[ReplacementCandidate] = []
        self.left: list[UnreplacedItem] = []
        self.copied: list[str] = []
        self.compacted = self.first_card = len(index.items)
        self._body = body
        self._policy = policy
        self._counter = counter
        self._known_artifacts = known_artifacts or KnownArtifacts()
        self._arguments = ArgumentReader(body, counter, min(policy.argument_tokens, _MIN_ARGUMENT_TOKENS))
        # Maps outputs to their calls. Objects are compared by identity, since two calls may be equal in every field.
        self._calls = {id(one.output): one.call for one in pairs.pairs}
        self._answered = {id(call) for call in self._calls.values()}
        self._done: dict[int, int] = {}
        # A call is complete once all its outputs are there. A call that the host reports as not carried out is never
        # complete.
        for one in pairs.pairs:
            if _is_done(one.output):
                complete_at = max(one.output_item, one.call_item) + 1
                self._done[id(one.call)] = max(self._done.get(id(one.call), 0), complete_at)
        # Tools that declare the schema of their output: a card in its place would violate the schema.
        self._shaped = {
            str(tool.get("name"))
            for tool in index.unwrap_declarations()
            if "output_schema" in tool or "outputSchema" in tool
        }
        for number, item in enumerate(index.items):
            self._number = number
            self._message(number, item)
            for call in item.calls:
                self._call(number, call)
            for output in item.outputs:
                self._output(number, output)

    # ------------------------------------------------------------------------------------------------ outputs

    def _output(self, number: int, output: Output) -> None:
        call = self._calls.get(id(output))
        tool = output.name or (call.name if call else None)
        # A search is one candidate with all its parts, since one summary replaces all of them.
        reason = self._find_exemption(tool, server=output.server)
        if reason is None and self._add_search(number, output, tool):
            return
        small: list[tuple[Piece, int]] = []
        for piece in output.pieces:
            tokens = self._counter.piece(piece.text)
            stays = reason or self._recognise_output(number, output, piece, tool, tokens)
            if stays is not None:
                self._leave(piece.at, tokens, stays)
            elif tokens > self._policy.inline_tokens:
                place = ReplacementSite(piece.at, piece.inside, characters=len(piece.text))
                self._add(number, output, tool, why="oversized", sites=(place,), content=piece.text, tokens=tokens)
            else:
                small.append((piece, tokens))
        # Parts that are small one by one may be too large together.
        if sum(tokens for _, tokens in small) > self._policy.inline_tokens:
            self._many(number, output, tool, [piece for piece, _ in small])
        else:
            self._short(number, output, tool, small)
        for media in output.media:
            self._media(number, output, tool, media, reason)
        for value in output.data:
            self._leave(output.at, self._counter.json(value), reason or "a part of it has no form that is known")

    def _find_exemption(self, tool: str | None, *, server: bool) -> str | None:
        if server and not self._policy.server_tools:
            return "the provider ran this tool"
        if same_tool(tool, self._policy.exempt_tools):
            return "the tool is exempt"
        return "the tool declares the schema of its output" if tool in self._shaped else None

    def _recognise_output(self, number: int, output: Output, piece: Piece, tool: str | None, tokens: int) -> str | None:
        """Returns why a part of an output gets no card; None if it may get one.

        The reason is empty for a read that becomes a candidate of another kind, or is too small to be one.
        """
        # Recognise our own texts first: a card of a card would hide the card's content behind another read.
        text = signs.recognisable(piece.text)
        if signs.is_ours(text) or not is_utf8(text):
            return self._ours(number, text) if is_utf8(text) else _HALVES
        if not signs.is_read(piece.text, tool):
            return None
        line = signs.read_line(text, self._arguments_of(output))
        answer = read_answer_of(text)
        if line is None or answer is None:
            return "was read back from an artifact"
        # If the artifact cannot be read now, the line in place of the text would name a call that fails.
        if not self._known_artifacts.is_readable(answer.artifact_id):
            return f"was read from {answer.artifact_id}, which cannot be read now"
        saves = tokens - self._counter.text(line)
        if saves < MARKER_TOKENS:
            return ""
        place = ReplacementSite(piece.at, piece.inside, "given", len(piece.text))
        pressed = self._policy.is_quiet and tokens <= self._policy.inline_tokens
        self._add(
            number, output, tool, kind="read", why="can be read again", sites=(place,), tokens=tokens, saves=saves,
            replacement_text=line, artifact_id=answer.artifact_id, pressed=pressed,
        )  # fmt: skip
        return ""

    def _ours(self, number: int, text: str) -> str:
        if signs.card_size(text) is None:
            self._show(number)
        self.first_card = min(self.first_card, number)
        return _OURS

    def _add_search(self, number: int, output: Output, tool: str | None) -> bool:
        """Returns whether an output is our answer of a search with a summary. Adds it as a candidate if that pays."""
        first = output.pieces[0] if output.pieces else None
        search = signs.search_text(signs.recognisable(first.text)) if first is not None else None
        summary = self._known_artifacts.summaries.get(search) if search is not None else None
        if first is None or search is None or summary is None:
            return False
        summary = signs.in_place_of(str(first.text), summary)
        others = [piece for piece in output.pieces[1:] if len(piece.text) > _MIN_PASSAGE_CHARS]
        tokens = sum(self._counter.piece(piece.text) for piece in (first, *others))
        saves = tokens - self._counter.text(summary) - self._counter.text(signs.PASSAGE) * len(others)
        if saves >= MARKER_TOKENS:
            sites = [ReplacementSite(first.at, first.inside, "given", len(first.text))]
            sites += [ReplacementSite(piece.at, piece.inside, "passage", len(piece.text)) for piece in others]
            self._add(
                number, output, tool, kind="search", why="has a summary", sites=tuple(sites), tokens=tokens,
                saves=saves, replacement_text=summary, artifact_id=search.artifact_id,
            )  # fmt: skip
        return True

    def _many(self, number: int, output: Output, tool: str | None, small: list[Piece]) -> None:
        """Handles parts that are small but too large together: the first becomes a card, each other part a marker."""
        tokens = sum(self._counter.piece(piece.text) for piece in small)
        # The format wants one object here, so one card replaces the whole object.
        if output.whole is not None and len(small) == len(output.pieces):
            place = ReplacementSite(output.whole, shows="whole")
            content = serialise_canonical(get(self._body, output.whole))
            if is_utf8(content):
                self._add(number, output, tool, why="many parts", sites=(place,), content=content, tokens=tokens)
            return
        # Otherwise the first part becomes the card and the others markers. Removing the others would renumber the parts
        # after them.
        worth = [piece for piece in small if len(piece.text) > _MIN_GROUPED_CHARS and not piece.inside]
        token_counts = [self._counter.piece(piece.text) for piece in worth]
        saves = sum(token_counts) - self._policy.card_tokens - MARKER_TOKENS * len(worth)
        if len(worth) < 2 or saves <= 0 or any(piece.structured for piece in worth):  # noqa: PLR2004 - one is not many
            self._leave(output.at, tokens, "many small parts, too small to be replaced one by one")
            return
        first, *others = worth
        sites = [ReplacementSite(first.at, characters=len(first.text))]
        sites += [ReplacementSite(piece.at, shows="marker", characters=len(piece.text)) for piece in others]
        content = [{"type": "text", "text": piece.text} for piece in worth]
        self._add(
            number, output, tool, why="many parts", sites=tuple(sites), content=content, tokens=sum(token_counts),
            saves=saves,
        )  # fmt: skip

    def _short(self, number: int, output: Output, tool: str | None, small: list[tuple[Piece, int]]) -> None:
        """Adds short texts as candidates that become markers only while the window is under pressure."""
        for piece, tokens in small:
            if tokens >= _MIN_OUTPUT_TOKENS:
                place = ReplacementSite(piece.at, piece.inside, "marker", len(piece.text))
                self._add(
                    number, output, tool, why="short output", sites=(place,), content=piece.text,
                    tokens=tokens, saves=tokens - MARKER_TOKENS, pressed=True,
                )  # fmt: skip

    def _add(self, message: int, output: Output, tool: str | None, **fields: Any) -> None:  # noqa: ANN401 - its fields
        """Adds a candidate in an output. By default, a card replaces the content."""
        fields = {"kind": "output", "saves": fields["tokens"] - self._policy.card_tokens} | fields
        call = self._calls.get(id(output))
        command = command_of(get(self._body, call.sites[0].at)) if call is not None and call.sites else None
        self.candidates.append(
            ReplacementCandidate(
                message=message,
                ready=message + 1,
                tool=tool,
                call_id=output.call_id,
                command=command,
                failed=output.failed,
                file=fields["kind"] == "output" and reads_file(tool, command),
                **fields,
            )
        )

    def _arguments_of(self, output: Output) -> Object:
        """Returns the arguments of the call that an output belongs to; empty if they are unknown or no object."""
        call = self._calls.get(id(output))
        arguments = get(self._body, call.sites[0].at) if call is not None and call.sites else None
        return as_object(parse_document(arguments) if is_text(arguments) else arguments)

    def _media(self, number: int, output: Output, tool: str | None, media: Media, reason: str | None) -> None:
        # The model needs images and other media as they are; an embedded resource is only an attachment of the tool.
        if reason is not None or (self._policy.media == "keep" and "resource" not in as_object(media.part)):
            return
        tokens = self._counter.media(self._body, media)
        if not media.size or media.text_type is None:
            self._leave(media.at, tokens, "no bytes to store" if not media.size else "no text can stand here")
            return
        place = ReplacementSite(media.at, shows="marker")
        self._add(
            number, output, tool, kind="media", why="media", sites=(place,), content=[media.part], tokens=tokens,
            saves=tokens - MARKER_TOKENS, media=media,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------- arguments, messages

    def _call(self, number: int, call: HistoryCall) -> None:
        ready_at = self._done.get(id(call))
        # A marker in a call without an output was copied by the model, and the tool would write it into a file. The
        # report names the argument, so that the caller reads back the real text first.
        markers = [(place, text) for place, text in self._arguments.texts(call) if signs.marker_in(text)]
        if ready_at is None:
            self.copied += [render(place.at) for place, _ in markers]
        elif any(signs.is_marker(str(text)) for _, text in markers):
            self._show(number)
        exempt = self._find_exemption(call.name, server=call.server) == "the tool is exempt"
        rules = [rule.fields for rule in self._policy.arguments if same_tool(call.name, rule.tools)]
        fields = frozenset(name for names in rules for name in names)
        # Exempt tools keep their arguments as well; arguments that would otherwise be replaced are reported.
        for unit in self._arguments.units(call, fields):
            if exempt or signs.is_marker(signs.recognisable(unit.content)):
                if exempt:
                    self._leave(unit.sites[0].at, unit.tokens, "the tool is exempt")
            elif (why := self._find_obstacle(call, unit, ready_at)) is not None:
                self._leave(unit.sites[0].at, unit.tokens, why)
            else:
                self._add_arguments(number, call, ready_at or 0, unit)

    def _find_obstacle(self, call: HistoryCall, unit: ArgumentUnit, ready_at: int | None) -> str | None:
        if ready_at is None:
            return "the call was not carried out" if id(call) in self._answered else "the call has no output yet"
        if call.server and not self._policy.server_tools:
            return "the provider made this call"
        if not unit.is_replaceable:
            return "the provider's types allow no text here"
        return None if is_utf8(unit.content) else _HALVES

    def _add_arguments(self, number: int, call: HistoryCall, ready_at: int, unit: ArgumentUnit) -> None:
        tokens = self._arguments.count_written_tokens(unit)
        is_counted = any(site.is_counted for site in unit.sites)
        arguments = get(self._body, call.sites[0].at)
        self.candidates.append(
            ReplacementCandidate(
                kind="arguments",
                why="completed call",
                message=number,
                ready=ready_at,
                sites=tuple(unit.sites),
                content=unit.content,
                tool=call.name,
                call_id=call.call_id,
                command=file_of(arguments) or subject_of(arguments),
                tokens=tokens,
                saves=tokens - MARKER_TOKENS - self._arguments.count_kept_tokens(unit) if is_counted else 0,
                pressed=not unit.is_named or unit.tokens <= self._policy.argument_tokens,
                call_at=call.sites[0].at,
            )
        )

    def _message(self, number: int, item: Item) -> None:
        # A shortened message shows an earlier compaction. The replay cannot know which candidates were waiting before
        # it.
        if any(signs.is_shortened(piece.text) for piece in item.pieces):
            self._show(number)
        for opaque in item.opaque:
            self._leave(opaque.at, self._counter.opaque(opaque), "must come back to the provider as it is")
        # A notice is replaced by the next notice, never shortened.
        if carrier_of(item) is not None:
            self._show(number)
            return
        if item.role not in {Role.USER, Role.ASSISTANT} or item.pinned:
            for piece in item.pieces:
                self._leave(piece.at, self._counter.text(piece.text), "instructions are never changed")
            return
        # Only the middle of a long message is replaced: both ends stay, since they say what the message is about.
        least = _MESSAGE_FACTOR * self._policy.inline_tokens
        for piece in item.pieces:
            tokens = self._counter.text(piece.text) if len(piece.text) > least else 0
            if tokens <= least:
                continue
            around = as_object(get(self._body, piece.at[:-1])) if piece.at else {}
            # Citations refer to positions in the text, and a signature covers the whole text: both need it unchanged.
            if piece.cited or any("ignature" in key for key in around):
                self._leave(piece.at, tokens, "something points into this text, or it is signed")
            elif not is_utf8(piece.text):
                self._leave(piece.at, tokens, _HALVES)
            else:
                self.candidates.append(
                    ReplacementCandidate(
                        kind="message",
                        why="long message",
                        message=number,
                        ready=number + 1,
                        sites=(ReplacementSite(piece.at, shows="ends", characters=len(piece.text)),),
                        content=piece.text,
                        tokens=tokens,
                        saves=tokens - self._policy.card_tokens,
                        pressed=True,
                    )
                )

    def _show(self, number: int) -> None:
        self.compacted = min(self.compacted, number)

    def _leave(self, at: Pointer, tokens: int, why: str) -> None:
        if tokens > self._policy.inline_tokens and why and why != _OURS:
            self.left.append(UnreplacedItem(render(at), tokens, why, self._number))


_OURS: Final = "is a card or a marker already"


def _is_done(output: Output) -> bool:
    """Returns whether an output comes from the tool, and is not a text that a host put in place of a missing output."""
    return bool(output.media or output.data) or not (
        output.pieces and all(signs.is_not_done(piece.text) for piece in output.pieces)
    )
