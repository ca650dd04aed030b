"""Makes and recognises texts that this service leaves in a history: markers, lines for reads, summaries of searches.

Our texts are recognised by their exact form, never by a phrase that another text could contain. A recognised text stays
as it is, so that compacting a compacted history changes nothing. Cards, answers of the declared tool and notices are
recognised by the modules that make them (core/card/compose.py, core/read_answer.py, core/context/notice.py).
"""

import json
import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final, cast

from msgspec import Struct

from coatcheck.core.card.compose import is_card
from coatcheck.core.context.body.encoding import Object
from coatcheck.core.ids import is_id
from coatcheck.core.read_answer import MAX_CHARS, is_read_answer, read_answer_of
from coatcheck.core.text.long_text import Text
from coatcheck_client.contract.inert import MARK, one_line

_MARKER: Final = re.compile(
    r"\[(?:… [0-9,]+ characters(?: of (?P<about>[^\n]{1,120}))?|[-!#$&^_.+a-zA-Z0-9/]{1,100}, [0-9,]+ bytes), "
    r"stored as (?P<id>art_[0-9]{18}); omitted from history, do not copy\]"
)
_IDS: Final = re.compile(r"art_[0-9]{18}")
_OWN_TOOLS: Final = ("read_artifact", "list_artifacts")
_MARKER_CHARS: Final = 300
"""Characters above which a text is no marker; `_MARKER` matches at most about 250."""
_READ_END: Final = "read before and left out of history; the same call shows it again]"
_READ_LINE: Final = re.compile(rf"\[(art_[0-9]{{18}}) · [^\n]{{1,1100}} · [0-9,]+ characters, {re.escape(_READ_END)}")
_READ_LINE_CHARS: Final = 1_300
"""Characters above which a text is no line that replaces a read; `_READ_LINE` matches at most about 1,230."""
_FIND: Final = ("pattern", "query", "path", "section")
"""Arguments of a read that the first line of its answer does not repeat."""
_ARGUMENT_CHARS: Final = 100
"""Maximum characters of a pattern or a query that the line repeats. Chosen, not measured."""
_NO_LIST: Final = r"(?:failed: [^\n]{0,700}|the response was not understood)"
_SEARCH: Final = re.compile(
    rf'{MARK} (?:Search: [^"\n]{{1,60}}?(?: for "([^\n]{{0,220}})")?(?: by [^\n]{{1,60}})?, ([0-9]+) shown'
    rf'|Search(?: for "([^\n]{{0,220}}?)")?(?: by [^\n]{{1,60}}?)?: {_NO_LIST}'
    rf"|[0-9]+ results?(?:, ([0-9]+) shown)?|an answer without results|{_NO_LIST})"
    r"(?:\. Stored outside this conversation as |; all in )(art_[0-9]{18})(?:; cite as [^\n]{1,40})?(?=\n|\Z)"
)
_SEARCH_ANSWER: Final = re.compile(
    rf"{MARK} (?:Search(?::| for | by )|[0-9]+ results?[ ,;]|an answer without results|{_NO_LIST})"
)
"""Matches the beginning of every answer of a web search, stored or not. A summary begins with the query instead."""
_OWN_LINE: Final = re.compile(rf"(?:\A|\n[ \t>]*)(?={MARK} )")
_LEAD_CHARS: Final = 400
"""Maximum characters that a host puts before or after a search's text, and that then stay around its summary."""
_MAX_DEPTH: Final = 4
"""Maximum depth of JSON in strings of JSON, and of objects in one JSON document."""
_MAX_MEMBERS: Final = 50
"""Maximum members of one object that are searched for a text of ours. Chosen, not measured."""
_JSON_CHARS: Final = 1_000_000
"""Maximum characters of an output that is parsed to find our text in it. Chosen, not measured."""
_LAST_LINE: Final = re.compile(rf"\n[ \t>]*{MARK} Next: read_artifact\([^\n]*\)(?=\n)")
_RESULT: Final = re.compile(rf"^[ \t>]*{MARK} (r[0-9]{{1,6}}) ", re.MULTILINE)
PASSAGE: Final = "[…]"
"""Replaces a passage of a search that has a block of its own, if the summary is in the first block: a block cannot be
empty, and removing it would renumber the blocks after it."""
_SUMMARY: Final = re.compile(
    rf"{MARK} [^\n]+; stored as art_[0-9]{{18}}(?:\n|\Z)"
    rf"|{MARK} [^\n]+\n(?:[^\n]*\n)*?(?:(?:{MARK} sources\n|- [^\n]+ \[)art_[0-9]{{18}}#r[0-9]+[ \]]"
    rf"|{MARK} others, sections of art_[0-9]{{18}}\n)"
)
_SUMMARY_CHARS: Final = 8_000
"""Characters above which a text is no summary of a search; a summary has at most 768 tokens."""
_SHORTENED: Final = "bytes of this message left out; all of it is stored as"
_SHORTENED_LINE: Final = re.compile(rf"^\[… [0-9,]+ {_SHORTENED} art_[0-9]{{18}}\]$", re.MULTILINE)
_NOT_DONE: Final = re.compile(
    r"\b(?:tool|call|request|operation|execution|command|task|action)\b[^\n]{0,120}?"
    r"\b(?:cancell?ed|interrupted|aborted|rejected|skipped|denied|not (?:be )?(?:executed|completed|run)|missing)\b"
    r"|\b(?:doesn't|does not|did not) want to (?:proceed|take this action)\b|\bno result (?:was )?provided\b"
    r"|\A\s*(?:aborted|cancell?ed|interrupted)\b",
    re.IGNORECASE,
)
_NOT_DONE_CHARS: Final = 500
"""Maximum characters of a host's sentence in place of a result; a longer text is an output that contains such words."""
_BEGINNINGS: Final = ("[", "art_", MARK)
"""The first characters of our texts: of cards, markers, notices and answers; of lists of artifacts; of searches and
summaries."""


def marker(characters: int, artifact_id: str, about: str = "") -> str:
    """Returns the replacement for a text taken out of a history; `about` is one line of at most 120 characters."""
    subject = f" of {about}" if about else ""
    return f"[… {characters:,} characters{subject}, stored as {artifact_id}; omitted from history, do not copy]"


def placeholder(media_type: str, size: int, artifact_id: str) -> str:
    """Returns the replacement for an image or a file that was taken out of a history."""
    label = media_type if re.fullmatch(r"[-!#$&^_.+a-zA-Z0-9/]{1,100}", media_type) else "file"
    return f"[{label}, {size:,} bytes, stored as {artifact_id}; omitted from history, do not copy]"


def is_marker(text: str) -> bool:
    """Returns whether a text is exactly one of our markers or placeholders."""
    if len(text) > _MARKER_CHARS:
        return False
    match = _MARKER.fullmatch(text)
    return match is not None and is_id(match["id"])


def parse_marker(marker: str) -> str | None:
    """Returns the description in a marker: a tool and its command, or the path of a file; None if there is none."""
    match = _MARKER.fullmatch(marker)
    return None if match is None else match["about"]


def recognisable(text: Text) -> str:
    """Returns a text as a string if it could be one of ours; empty for a long text with another beginning."""
    if isinstance(text, str):
        return text
    return str(text) if text.startswith(_BEGINNINGS) or MARK in text.head(_LEAD_CHARS + 1) else ""


def marker_in(text: Text) -> str | None:
    """Returns the first marker in a text, so that a model can be told that it copied one; None if there is none."""
    match = _MARKER.search(str(text)) if "omitted from history, do not copy]" in text else None
    return match[0] if match is not None and is_id(match["id"]) else None


def is_ours(text: str) -> bool:
    """Returns whether a text is our card, marker, placeholder, line in place of a read, or summary of a search."""
    return is_marker(text) or is_card(text) or is_read_line(text) or is_summary(text)


def read_line(text: str, arguments: Object) -> str | None:
    """Returns the line that replaces an answer of `read_artifact`; None for any other text.

    Args:
        text: the answer; its first line names the artifact, the part and the view.
        arguments: the arguments of the call; the line repeats the search terms in them.
    """
    answer = read_answer_of(text)
    if answer is None:
        return None
    terms = [
        f'{name} "{one_line(value[:_ARGUMENT_CHARS])}"'
        for name in _FIND
        if isinstance(value := arguments.get(name), str) and value
    ]
    head = " · ".join([answer.described, *terms])
    return f"[{head} · {len(text):,} characters, {_READ_END}"


def is_read_line(text: str) -> bool:
    """Returns whether a text is exactly a line in place of a read."""
    match = _READ_LINE.fullmatch(text) if len(text) <= _READ_LINE_CHARS and text.endswith(_READ_END) else None
    return match is not None and is_id(match[1])


class SearchText(Struct, frozen=True):
    """The answer of a web search in a history."""

    artifact_id: str
    """ID of the artifact with the provider's response."""
    query: str
    """The query as the answer shows it; empty if the answer shows none."""
    result_count: int
    """Number of results whose text is shown."""
    sections: tuple[str, ...] = ()
    """Sections of these results, if the answer is one text; otherwise empty."""


class _OwnText(Struct, frozen=True):
    """A text of ours inside other content from the host: a lead-in, tags, JSON in strings of JSON."""

    text: str
    """The text from our first line on."""
    rebuilt: Callable[[str], str]
    """Returns the host's content with another text in place of ours."""


def _own_text(text: str, depth: int = _MAX_DEPTH) -> _OwnText | None:
    """Returns the first text of ours inside another text, which has at most a short lead-in before it."""
    match = _OWN_LINE.search(text[: _LEAD_CHARS + 2])
    if match is not None:
        lead, own = text[: match.end()], text[match.end() :]
        last = next(reversed(list(_LAST_LINE.finditer(own))), None)
        tail = own[last.end() :] if last is not None and len(own) - last.end() <= _LEAD_CHARS else ""
        return _OwnText(own, lambda other: f"{lead}{other}{tail}")
    # Hosts wrap an answer in JSON, and this JSON in a string of JSON. Only a text that can contain our ID is parsed.
    if depth == 0 or text[:1] not in {"{", "[", '"'} or "art_" not in text or len(text) > _JSON_CHARS:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    leaf = _own_leaf(value, depth)
    if leaf is None:
        return None
    own, put = leaf
    return _OwnText(
        own, lambda other: json.dumps(put(other), ensure_ascii=text.isascii() or "\\u" in text, separators=(",", ":"))
    )


def _own_leaf(value: object, depth: int, level: int = _MAX_DEPTH) -> tuple[str, Callable[[str], object]] | None:
    """Returns the first text of ours among the strings of a value, and a function that replaces it in the value."""
    if isinstance(value, str):
        own_text = _own_text(value, depth - 1)
        return None if own_text is None else (own_text.text, own_text.rebuilt)
    members = list(cast("dict[Any, object] | list[object]", value) if isinstance(value, dict | list) else ())
    names = members if isinstance(value, dict) else range(len(members))
    for name in islice(names, _MAX_MEMBERS) if level else ():
        whole = cast("Any", value)
        inner = _own_leaf(whole[name], depth, level - 1)
        if inner is not None:
            own, put = inner
            return own, partial(_with_member, whole, name, put)
    return None


def _with_member(whole: Any, name: Any, put: Callable[[str], object], text: str) -> object:  # noqa: ANN401 - any JSON
    changed = whole.copy()
    changed[name] = put(text)
    return changed


def search_text(text: str) -> SearchText | None:
    """Returns the web search that a text answers, even if it is inside other content; None for any other text."""
    own = _own_text(text)
    match = _SEARCH.match(own.text) if own is not None else None
    if own is None or match is None or not is_id(match[5]):
        return None
    sections = tuple(_RESULT.findall(own.text))
    result_count = int(match[2] or match[4] or 0)
    return SearchText(
        match[5], match[1] or match[3] or "", result_count, sections if len(sections) == result_count else ()
    )


def in_place_of(text: str, summary: str) -> str:
    """Returns a search's summary with the content that the host put around the search's text."""
    own = _own_text(text)
    return summary if own is None else own.rebuilt(summary)


def is_search(text: str) -> bool:
    """Returns whether a text is the answer of a web search, stored or not."""
    return _SEARCH_ANSWER.match(text) is not None


def is_summary(text: str) -> bool:
    """Returns whether a text is the summary of a search that stays for later turns."""
    own = _own_text(text) if len(text) <= _SUMMARY_CHARS else None
    match = _SUMMARY.match(own.text) if own is not None and _SEARCH.match(own.text) is None else None
    return match is not None and bool(ids_in(match[0]))


def is_not_done(text: Text) -> bool:
    """Returns whether a short output is a host's sentence that says that the call was never carried out.

    The pattern covers more words than any one host uses. Mistaking a real output for such a sentence does no harm: the
    arguments of its call then stay.
    """
    # Real outputs are longer, and may contain such words anywhere.
    return len(text) <= _NOT_DONE_CHARS and _NOT_DONE.search(str(text)) is not None


def card_size(text: str) -> str | None:
    """Returns the payload size that a card states, empty if it states none; None for text that is not a card."""
    if not is_card(text):
        return None
    parts = text.partition("\n")[0].split(" · ")
    return parts[2] if len(parts) > 3 else ""  # noqa: PLR2004 - ID, kind, size, the rest


def make_cut_line(artifact_id: str) -> str:
    """Returns the line between the two ends of a shortened message, with `{:,}` for the number of missing bytes."""
    return f"[… {{:,}} {_SHORTENED} {artifact_id}]"


def is_shortened(text: Text) -> bool:
    """Returns whether a message was shortened to its two ends."""
    return _SHORTENED in text and _SHORTENED_LINE.search(str(text)) is not None


def is_read(text: Text, tool: str | None) -> bool:
    """Returns whether a tool output is an answer of the declared tool.

    The output is recognised by its form, or by the tool's name if it is not larger than such answers can be.
    """
    return is_read_answer(recognisable(text)) or (len(text) <= MAX_CHARS and is_own_tool(tool))


def is_own_tool(name: str | None) -> bool:
    """Returns whether a tool is one of ours, even with the prefix that hosts add to the tools of a server."""
    return name is not None and (name in _OWN_TOOLS or name.endswith(tuple(f"__{own}" for own in _OWN_TOOLS)))


def ids_in(text: str) -> list[str]:
    """Returns the artifact IDs in a text with correct check digits, in order and without duplicates."""
    return [artifact_id for artifact_id in dict.fromkeys(_IDS.findall(text)) if is_id(artifact_id)]
