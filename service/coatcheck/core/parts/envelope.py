"""Takes the text out of the JSON that a tool wraps around it: found by structure, whatever the members are called.

An envelope is an object most of whose bytes are texts: long strings, or strings of several lines. Its other members
are few, and say something about the texts. Texts that are envelopes themselves are opened as well.
"""

from typing import Final, cast

import msgspec
from msgspec import Struct

_DEEPEST: Final = 8
"""Envelopes in one another, and levels of one, that are opened."""
_LONG: Final = 200
"""Characters from which a string of one line is a text; base64 has no blank in as many."""
_MEMBERS: Final = 24
"""Maximum members besides the texts: an object with more is data of its own."""
_SHARE: Final = 0.5
"""Minimum share of the texts in the object's bytes."""
_FAULTS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


class Envelope(Struct, frozen=True):
    """What an envelope contains, in order."""

    texts: list[tuple[str, str]]
    """The path and the characters of each text that is not empty."""
    facts: list[tuple[str, str]]
    """Path and value of the other members."""


def open_envelope(data: bytes) -> Envelope | None:
    """Returns the content of an envelope; None if data is none."""
    return _open(data, _DEEPEST)


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
    if depth == 0 or body[:1] != b"{" or body[-1:] != b"}":
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
    elif isinstance(value, list) and value:  # of records it is data; of a provider's parts, one may be the text
        items = cast("list[object]", value)
        typed = all(not isinstance(each, dict) or "type" in each for each in items)
        before = len(found.texts)
        whole = depth > 0 and all(
            _gather(each, f"{path}[{number}]", found, depth - 1) for number, each in enumerate(items)
        )
        return typed and whole and len(found.texts) - before <= 1
    elif value not in ("", None, [], {}):
        fact = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        found.facts.append((path, fact))
        return len(fact) < _LONG and len(found.facts) <= _MEMBERS
    return len(found.texts) + len(found.facts) <= _MEMBERS
