"""Extracts the text from an envelope, such as a tool's JSON. An envelope is recognised by structure, not by names.

An envelope is JSON that consists mostly of texts: long strings, strings of several lines, lists of lines, or lists of
records with a time and a message. Its other members are few, and describe the texts. If a text is itself an envelope,
it is opened, too. A string literal with escaped line feeds is treated in the same way: it occurs in JSON that was cut
off, and in values as Python prints them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, cast

import msgspec
from msgspec import Struct

from coatcheck.core.parts.blobs import name_blobs
from coatcheck.core.parts.fields import find_fields, has_field
from coatcheck.core.structure import JSON_FAULTS, has_unique_names
from coatcheck_client.contract.json_values import unique_members

_MAX_DEPTH: Final = 8
"""Maximum depth of envelopes inside envelopes, and of nested containers inside an envelope, that are opened."""
_LONG: Final = 200
"""Minimum characters of a text of one line. Its first _LONG characters must also contain a blank, unlike base64."""
_MEMBERS: Final = 24
"""Maximum texts and other members of an envelope: an object with more members is data of its own."""
_SHARE: Final = 0.5
"""Minimum share of the texts in the bytes of an envelope."""
_FEWEST: Final = 8
"""Minimum items of a list, or escaped line feeds of a literal, that are taken for the lines of a text."""
_TELLING: Final = 128
"""Number of records that are examined to decide whether the records of a list have a message."""
_EACH: Final = "[*]"
"""End of the path of a list of lines."""
_ENDED: Final = 0.8
"""Share of messages that end with a line feed above which the messages are lines, even without a time beside them."""
_PAIR: Final = ("time", "line", "metadata")
"""Names of the items of a record that is a list. The last one is an object, and may be missing."""
_PART: Final = 0.1
"""Minimum share of a text that a literal must take up to be opened. Source code has many literals, which are
shorter."""
_JOINT: Final = re.compile(r"\s*[+,]?\s*")
"""Matches the text between two pieces of a literal."""
_LITERAL: Final = re.compile(r"""(["'`])((?:[^\\"'`\n]++|\\.|(?!\1)["'`])*+)(?:\1|\\?\Z)""", re.DOTALL)
"""Matches a string literal of Python, JavaScript or JSON, which may be cut off."""
_NAME: Final = re.compile(r"""['"]?(\w{1,40})['"]? ?[:=] ?[bru]?\Z""")
"""Matches the name in front of a literal."""
_NAME_CHARS: Final = 48
"""Characters before a literal that are searched for its name: a name of 40, quotation marks and a sign."""
_ESCAPE: Final = re.compile(r"((?:\\x[0-9a-fA-F]{2})+)|\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": ""}
_SEVERAL: Final = re.compile(rb'\{[ \t]*\r?\n[^{}]*"')
"""Matches the beginning of an object of several lines."""
_PAGE: Final = re.compile(r"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_URL: Final = re.compile(r"(?i)https?://[^\s/]\S*")
_NOT_ITS_URL: Final = re.compile(r"(?i)image|icon|logo|thumb|avatar|screenshot|next|prev|refer|proxy")
"""Matches names of members whose URL is not that of the page, but of something else."""
_NEXT: Final = re.compile(r"\S")


class Envelope(Struct, frozen=True):
    """The contents of an envelope, in order."""

    texts: list[tuple[str, str]]
    """Path and characters of each text that is not empty."""
    facts: list[tuple[str, str]]
    """Path and value of each other member."""
    list_overheads: list[int] = []
    """For each text that was made of a list: the number of bytes by which the list's JSON is longer than the text."""


def open_envelope(data: bytes) -> Envelope | None:
    """Returns the content of an envelope, with names in place of encoded bytes; None if `data` is no envelope."""
    body = data.strip()
    if body[:1] not in {b"{", b"["} and (b"\\" not in body or body.count(b"\\n") < _FEWEST):
        return None
    data = name_blobs(body)
    return _open(data, _MAX_DEPTH) or _open_literals(data)


def render(envelope: Envelope) -> str:
    """Returns the text of an envelope: a line with the other members, then the texts, with their paths if several.

    If the text is a page, the line comes last, because a page is recognised by its beginning.
    """
    shows_paths = len(envelope.texts) > 1
    out: list[str] = []
    for path, text in envelope.texts:
        body = text.replace("\r\n", "\n")
        out.append(f"{f'{path}:{chr(10)}' if shows_paths else ''}{body}{'' if body.endswith(chr(10)) else chr(10)}")
    facts = ", ".join(f"{path}: {value}" for path, value in envelope.facts)
    line = [f"{facts}\n"] if facts else []
    return "".join([*out, *line] if _is_page(envelope) else [*line, *out])


def url_beside(envelope: Envelope) -> str | None:
    """Returns the URL that an envelope gives beside the text of a page, whatever the name of its member.

    A URL in the same object as the page comes first. None if the envelope holds no page; empty if it has no URL.
    """
    if not _is_page(envelope):
        return None
    around = envelope.texts[0][0].rpartition(".")[0]
    urls = [(path, url) for path, url in envelope.facts if _URL.fullmatch(url) and not _NOT_ITS_URL.search(path)]
    _, url = min(urls, key=lambda fact: fact[0].rpartition(".")[0] != around, default=("", None))
    return url


def _is_page(envelope: Envelope) -> bool:
    return len(envelope.texts) == 1 and _PAGE.match(envelope.texts[0][1]) is not None


def _open(data: bytes, depth: int) -> Envelope | None:
    body = data.strip()
    if depth == 0 or body[:1] + body[-1:] not in {b"{}", b"[]"}:
        return None
    is_sequence = False
    try:
        value: object = msgspec.json.decode(body)
    except JSON_FAULTS:
        value, is_sequence = _sequence(body), True
    if value is None:
        return None
    # The texts must make up most of the bytes. For records that contain some text, the structure matters more.
    envelope = Envelope([], [])
    if not _gather(value, "", envelope, _MAX_DEPTH) or not envelope.texts:
        return None
    size = sum(envelope.list_overheads) + sum(len(text.encode("utf-8", "replace")) for _, text in envelope.texts)
    if size < _SHARE * len(body) * _plain_share(body):
        return None
    if not is_sequence and not has_unique_names(body):
        return None
    # A text may itself be an envelope, such as a tool's JSON inside the JSON of a protocol.
    result = Envelope([], envelope.facts)
    for path, text in envelope.texts:
        inner = _open(text.encode("utf-8", "replace"), depth - 1)
        if inner is None:
            result.texts.append((path, text))
        else:
            result.texts.extend((f"{path}.{name}", part) for name, part in inner.texts)
            result.facts.extend((f"{path}.{name}", part) for name, part in inner.facts)
    return result


def _sequence(body: bytes) -> list[object] | None:
    """Returns the objects of a sequence in which each has several lines, as `jq` prints them; None if it is none."""
    if not _SEVERAL.match(body):
        return None
    values: list[object] = []
    text, at = body.decode("utf-8", "replace"), 0
    decode = json.JSONDecoder(object_pairs_hook=unique_members).raw_decode
    try:
        while at < len(text):
            value, at = decode(text, at)
            values.append(value)
            at = len(text) if (match := _NEXT.search(text, at)) is None else match.start()
    except (ValueError, RecursionError):
        return None
    return values


def _plain_share(body: bytes) -> float:
    """Returns the share of the bytes that are not backslashes, at least 0.1. Each nested string doubles backslashes."""
    return 1 - min(0.9, body.count(b"\\") / len(body))


def _gather(value: object, path: str, envelope: Envelope, depth: int) -> bool:
    """Adds the texts and other members in a value to `envelope`; returns False if an envelope has no such value."""
    if isinstance(value, str) and (value.count("\n") > 1 or (len(value) >= _LONG and " " in value[:_LONG])):
        envelope.texts.append((path, value))
    elif isinstance(value, dict) and value:
        members = ((f"{path}.{name}".lstrip("."), each) for name, each in cast("dict[str, object]", value).items())
        return depth > 0 and all(_gather(each, inner, envelope, depth - 1) for inner, each in members)
    elif isinstance(value, list) and value:
        items = cast("list[object]", value)
        lines = _lines_of(items)
        if lines:
            envelope.texts.append((f"{path}{_EACH}", lines))
            envelope.list_overheads.append(len(msgspec.json.encode(items)) - len(lines.encode("utf-8", "replace")))
            return True
        before = len(envelope.texts)
        members = ((f"{path}[{number}]", each) for number, each in enumerate(items))
        whole = depth > 0 and all(_gather(each, inner, envelope, depth - 1) for inner, each in members)
        # A provider's parts may include one text. Other records are data, unless all their texts are lists of lines.
        paths = [path for path, _ in envelope.texts[before:]]
        typed = bool(path) and all(not isinstance(each, dict) or "type" in each for each in items)
        return whole and ((typed and len(paths) <= 1) or (bool(paths) and all(each.endswith(_EACH) for each in paths)))
    elif value not in ("", None, [], {}):
        fact = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        envelope.facts.append((path, fact))
        return len(fact) < _LONG and len(envelope.facts) <= _MEMBERS
    return len(envelope.texts) + len(envelope.facts) <= _MEMBERS


def _lines_of(items: list[object]) -> str:
    """Returns the text of a list of lines, or of records with a time and a message; empty for any other list."""
    if len(items) >= _FEWEST and all(isinstance(item, str) for item in items):
        lines = [str(item).removesuffix("\n") for item in items]
        return "\n".join(lines) if any(" " in line for line in lines) else ""
    if all(isinstance(item, list) for item in items):
        pairs = cast("list[list[object]]", items)
        if not all(len(pair) == 2 or (len(pair) == len(_PAIR) and isinstance(pair[-1], dict)) for pair in pairs):  # noqa: PLR2004
            return ""
        items = [dict(zip(_PAIR, pair, strict=False)) for pair in pairs]
    if not items or not all(isinstance(item, dict) for item in items):
        return ""
    members = [list(_flat(cast("dict[str, object]", item))) for item in items]
    records = [dict(each) for each in members]
    return _lines_of_records(records) if list(map(len, records)) == list(map(len, members)) else ""


def _lines_of_records(records: list[dict[str, object]]) -> str:
    name, ended = _message_of(records)
    if not name or not (ended or has_field(records[0].values())):
        return ""
    lines = [line for record in records for line in _split(record, name)]
    if len(lines) < _FEWEST:
        return ""
    fields = find_fields(b"".join(line + b"\n" for line in lines[:_TELLING]))
    if fields is not None and fields.member == name:
        return b"\n".join(lines).decode()
    others = {other for record in records for other in record} - {name}
    is_counted = ended and all(_is_position(records, other) for other in others)
    return "".join(str(record.get(name, "")) for record in records).removesuffix("\n") if is_counted else ""


def _is_position(records: list[dict[str, object]], name: str) -> bool:
    """Returns whether a member numbers the records, or gives the time since the first record, from 0 or 1 on."""
    values = [record.get(name) for record in records]
    numbers = [value for value in values if isinstance(value, int | float)]
    return len(numbers) == len(values) and numbers[0] in {0, 1} and all(a <= b for a, b in pairwise(numbers))


def _flat(record: dict[str, object], before: str = "", depth: int = _MAX_DEPTH) -> Iterator[tuple[str, object]]:
    """Yields the members of a record without nesting: the members of objects in it, too, by their paths."""
    for name, value in record.items():
        if isinstance(value, dict) and value and depth > 0:
            yield from _flat(cast("dict[str, object]", value), f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}", value


def _message_of(records: list[dict[str, object]]) -> tuple[str, bool]:
    """Returns the name of the member with the most blanks, and whether nearly all its values end with a line feed."""
    sizes: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for record in records:
        for name, value in record.items():
            if isinstance(value, str):
                sizes[name] += value.count(" ")
                ends[name] += value.endswith("\n")
    name = max(sizes, key=sizes.__getitem__, default="")
    return name, ends[name] > _ENDED * len(records)


def _split(record: dict[str, object], name: str) -> list[bytes]:
    """Returns a copy of the record, in JSON, for each line of its message, which is the member `name`."""
    message = record.get(name)
    if not isinstance(message, str) or "\n" not in message:
        return [msgspec.json.encode(record)]
    lines = message.removesuffix("\n").split("\n")
    return [msgspec.json.encode({**record, name: line.removesuffix("\r")}) for line in lines]


def _open_literals(data: bytes) -> Envelope | None:
    """Returns the texts of string literals that make up most of a text; None if they do not.

    A literal may be written in several pieces.
    """
    first = data.strip().partition(b"\n")[0]
    if data.count(b"\\n") < _FEWEST or _is_json(data) or _is_json(first):
        return None
    text = data.decode("utf-8", "replace").strip()
    # Literals next to one another are one text, as Python and JavaScript join them.
    runs: list[list[re.Match[str]]] = []
    for match in _LITERAL.finditer(text):
        if runs and _JOINT.fullmatch(text, runs[-1][-1].end(), match.start()):
            runs[-1].append(match)
        elif match[2].count("\\n"):
            runs.append([match])
    # Source code has many short literals, so that only long ones are opened, and only if they are most of the text.
    least = _PART * len(text)
    runs = [run for run in runs if run[-1].end() - run[0].start() > least and _count_lines(run) >= _FEWEST]
    if sum(run[-1].end() - run[0].start() for run in runs) < _SHARE * len(text):
        return None
    texts: list[tuple[str, str]] = []
    around: list[str] = []
    at = 0
    for run in runs:
        before = text[at : run[0].start()]
        name = _NAME.search(before[-_NAME_CHARS:])
        texts.append((name[1] if name else "text", _unescape_run(run)))
        around += (before, "…")
        at = run[-1].end()
    around_text = "".join([*around, text[at:]])
    is_short = len(around_text) < _LONG and "\n" not in around_text
    named = [("around", around_text)]
    return Envelope(texts, named) if is_short else Envelope([*named, *texts], [])


def _count_lines(run: list[re.Match[str]]) -> int:
    return sum(match[2].count("\\n") for match in run)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except JSON_FAULTS:
        return False
    return True


def _unescape_run(run: list[re.Match[str]]) -> str:
    text = "".join(_ESCAPE.sub(_unescape, match[2]) for match in run)
    # JSON writes a character beyond U+FFFF, such as an emoji, as the two escapes of a surrogate pair.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return bytes.fromhex(match[1].replace("\\x", "")).decode("utf-8", "replace")
    if match[2]:
        return chr(int(match[2], 16))
    return _CONTROLS.get(match[3], match[3])
