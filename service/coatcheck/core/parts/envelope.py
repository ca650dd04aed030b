"""Takes the text out of what a tool wraps around it: found by structure, whatever the members are called.

An envelope is JSON most of whose bytes are texts: long strings, strings of several lines, a list of lines, or of
records with a time and a message. Its other members are few, and say something about the texts. Texts that are
envelopes themselves are opened as well. So is a string literal with escaped line feeds: JSON that was cut off, or a
value as Python prints it.
"""

import re
from typing import Final, cast

import msgspec
from msgspec import Struct

from coatcheck.core.parts.blobs import name_blobs
from coatcheck.core.parts.fields import find_fields, has_field

_DEEPEST: Final = 8
"""Envelopes in one another, and levels of one, that are opened."""
_LONG: Final = 200
"""Characters from which a string of one line is a text; base64 has no blank in as many."""
_MEMBERS: Final = 24
"""Maximum members besides the texts: an object with more is data of its own."""
_SHARE: Final = 0.5
"""Minimum share of the texts in the object's bytes."""
_FEWEST: Final = 8
"""Items of a list, and escaped line feeds of a literal, below which they are no lines of a text."""
_TELLING: Final = 128
"""Records that tell whether all have a message."""
_EACH: Final = "[*]"
"""Ends the path of a list of lines."""
_PAIR: Final = ("time", "line")
_LITERAL_LINES: Final = 3
"""Maximum lines of a text that is a literal."""
_LITERAL: Final = re.compile(r"""(["'])((?:[^\\"']++|\\.|(?!\1)["'])*+)(?:\1|\\?\Z)""", re.DOTALL)
"""A string literal of Python, JavaScript or JSON, perhaps cut off."""
_NAME: Final = re.compile(r"""['"]?(\w{1,40})['"]? ?[:=] ?[bru]?\Z""")
"""What names a literal, in front of it."""
_NEAR: Final = 48
_ESCAPE: Final = re.compile(r"((?:\\x[0-9a-fA-F]{2})+)|\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": ""}
_FAULTS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


class Envelope(Struct, frozen=True):
    """What an envelope contains, in order."""

    texts: list[tuple[str, str]]
    """The path and the characters of each text that is not empty."""
    facts: list[tuple[str, str]]
    """Path and value of the other members."""


def open_envelope(data: bytes) -> Envelope | None:
    """Returns the content of an envelope, with names in place of encoded bytes; None if data is none."""
    body = data.strip()
    if body[:1] not in {b"{", b"["} and body.count(b"\n") > _LITERAL_LINES:
        return None
    data = name_blobs(body)
    return _open(data, _DEEPEST) or _open_literals(data)


def render(envelope: Envelope) -> str:
    """Returns the text of an envelope: its texts, named if there are several, then a line of the other members.

    That comes last, where an output's own exit status would stand.
    """
    named = len(envelope.texts) > 1
    out: list[str] = []
    for path, text in envelope.texts:
        body = text.replace("\r\n", "\n")
        out.append(f"{f'{path}:{chr(10)}' if named else ''}{body}{'' if body.endswith(chr(10)) else chr(10)}")
    facts = ", ".join(f"{path}: {value}" for path, value in envelope.facts)
    return "".join([f"{facts}\n" if facts else "", *out])


def _open(data: bytes, depth: int) -> Envelope | None:
    body = data.strip()
    if depth == 0 or body[:1] + body[-1:] not in {b"{}", b"[]"}:
        return None
    try:
        value: object = msgspec.json.decode(body)
    except _FAULTS:
        return None
    found = Envelope([], [])
    if not _gather(value, "", found, _DEEPEST) or not found.texts:
        return None
    size = sum(len(text.encode("utf-8", "replace")) for _, text in found.texts)
    if size < _SHARE * len(body) * _plain_share(body):
        return None
    opened = Envelope([], found.facts)
    for path, text in found.texts:
        inner = _open(text.encode("utf-8", "replace"), depth - 1)
        if inner is None:
            opened.texts.append((path, text))
        else:
            opened.texts.extend((f"{path}.{name}", part) for name, part in inner.texts)
            opened.facts.extend((f"{path}.{name}", part) for name, part in inner.facts)
    return opened


def _plain_share(body: bytes) -> float:
    """Returns the share of the bytes that is not made of escapes, which a string in a string doubles at each level."""
    return 1 - min(0.9, body.count(b"\\") / len(body))


def _gather(value: object, path: str, found: Envelope, depth: int) -> bool:
    """Adds what is in a value; returns False if that is more than an envelope has."""
    if isinstance(value, str) and (value.count("\n") > 1 or (len(value) >= _LONG and " " in value[:_LONG])):
        found.texts.append((path, value))
    elif isinstance(value, dict) and value:
        members = cast("dict[str, object]", value).items()
        return depth > 0 and all(
            _gather(each, f"{path}.{name}".lstrip("."), found, depth - 1) for name, each in members
        )
    elif isinstance(value, list) and value:
        items = cast("list[object]", value)
        lines = _lines_of(items)
        if lines:
            found.texts.append((f"{path}{_EACH}", lines))
            return True
        before = len(found.texts)
        whole = depth > 0 and all(
            _gather(each, f"{path}[{number}]", found, depth - 1) for number, each in enumerate(items)
        )
        # Of a provider's parts, one may be the text; other records are data, unless lists of lines are in them.
        paths = [path for path, _ in found.texts[before:]]
        typed = bool(path) and all(not isinstance(each, dict) or "type" in each for each in items)
        return whole and ((typed and len(paths) <= 1) or (bool(paths) and all(each.endswith(_EACH) for each in paths)))
    elif value not in ("", None, [], {}):
        fact = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        found.facts.append((path, fact))
        return len(fact) < _LONG and len(found.facts) <= _MEMBERS
    return len(found.texts) + len(found.facts) <= _MEMBERS


def _lines_of(items: list[object]) -> str:
    """Returns the text of a list of lines, or of records that have a message beside a time; empty for another list."""
    if len(items) < _FEWEST:
        return ""
    if all(isinstance(item, str) for item in items):
        lines = [str(item).removesuffix("\n") for item in items]
        return "\n".join(lines) if any(" " in line for line in lines) else ""
    if all(isinstance(item, list) for item in items):
        pairs = cast("list[list[object]]", items)
        items = [dict(zip(_PAIR, pair, strict=True)) for pair in pairs if len(pair) == len(_PAIR)]
    if not all(isinstance(item, dict) for item in items) or not has_field(cast("dict[str, object]", items[0]).values()):
        return ""
    fields = find_fields(b"".join(msgspec.json.encode(item) + b"\n" for item in items[:_TELLING]))
    if fields is None or not fields.member:
        return ""
    return "\n".join(msgspec.json.encode(item).decode() for item in items)


def _open_literals(data: bytes) -> Envelope | None:
    """Returns the texts of string literals that make up most of a text without line feeds of its own."""
    lines = data.strip().split(b"\n", _LITERAL_LINES)
    if len(lines) > _LITERAL_LINES or data.count(b"\\n") < _FEWEST or _is_json(data) or _is_json(lines[0]):
        return None
    text = data.decode("utf-8", "replace").strip()
    found = [match for match in _LITERAL.finditer(text) if match[2].count("\\n") > 1]
    if sum(len(match[2]) for match in found) < _SHARE * len(text):
        return None
    texts: list[tuple[str, str]] = []
    around: list[str] = []
    at = 0
    for match in found:
        before = text[at : match.start()]
        name = _NAME.search(before[-_NEAR:])
        texts.append((name[1] if name else "text", _ESCAPE.sub(_unescape, match[2])))
        around += (before, "…")
        at = match.end()
    said = "".join([*around, text[at:]])
    return Envelope(texts, [("around", said)] if len(said) < _LONG else [])


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except _FAULTS:
        return False
    return True


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return bytes.fromhex(match[1].replace("\\x", "")).decode("utf-8", "replace")
    if match[2]:
        return chr(int(match[2], 16))
    return _CONTROLS.get(match[3], match[3])
