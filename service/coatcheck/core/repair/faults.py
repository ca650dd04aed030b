"""Finds faults for which providers refuse a history: unpaired calls and outputs, misplaced outputs, broken characters.

A call without an output is no fault in the last step of a history: its output is still to come. Messages that the
provider keeps, and calls that it ran itself, are not examined.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from coatcheck.core.context.body.encoding import Value, as_list, as_object, is_utf8
from coatcheck.core.context.body.model import Format, HistoryCall, HistoryIndex, Output
from coatcheck.core.context.body.splice import Pointer, get, render
from coatcheck.core.context.timeline import pair
from coatcheck.core.text.long_text import Text, is_text

MAX_NOTES: Final = 8
"""Maximum faults that are named one by one; the others are only counted."""
_SAYS: Final = {
    "no call": "answers a call that is not in this history",
    "no output": "is a call without an output, though the history goes on after it",
    "apart": "answers a call, but does not follow it directly",
    "half": "contains half of a surrogate pair, which is no character",
}
_LONE: Final = re.compile(
    r"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)
"""Matches the JSON escape for half of a surrogate pair without the other half beside it."""
_ANY_ORDER: Final = frozenset({Format.OPENAI_RESPONSES})
"""Formats in which an output may be anywhere after its call."""
MERGED: Final = frozenset({Format.ANTHROPIC, Format.PYDANTIC_AI})
"""Formats in which consecutive messages of the model count as one."""
TOGETHER: Final = frozenset({Format.BEDROCK, Format.GEMINI})
"""Formats in which all outputs must be in the one message after their calls, and authors alternate."""


class Fault(Struct, frozen=True):
    """A fault for which a provider would refuse the history."""

    kind: Literal["no call", "no output", "apart", "half"]
    at: Pointer
    item: int = -1
    """Number of the message with the fault; -1 if it is outside the messages."""
    call: HistoryCall | None = None
    output: Output | None = None
    call_item: int = -1
    """Number of the message with the call; -1 if there is none."""


def find_faults(index: HistoryIndex) -> list[Fault]:
    """Returns the faults of a history's calls and outputs, in order; none if the provider keeps a part of these."""
    if index.continues:
        return []
    # Three faults: outputs without a call; calls without an output in the middle of the history; outputs that do not
    # follow their calls.
    pairs = pair(index)
    faults = [
        Fault("no call", output.at, number, output=output) for number, output in pairs.orphans if not output.server
    ]
    flight_start = _flight_start(index)
    faults += [
        Fault("no output", call.at, number, call, call_item=number)
        for number, call in pairs.open
        if not call.server and number < flight_start
    ]
    faults += [
        Fault("apart", one.output.at, one.output_item, one.call, one.output, one.call_item)
        for one in pairs.pairs
        if not one.call.server and _is_apart(index, one.call_item, one.output_item)
    ]
    return sorted(faults, key=lambda fault: fault.item)


def _flight_start(index: HistoryIndex) -> int:
    """Returns the number of the first message whose calls may still wait for outputs; the history's end if none may.

    They are in the last message of the model or, where consecutive messages of the model count as one, in the last run,
    with no prompt after it.
    """
    items, number = index.items, len(index.items)
    while number and not (items[number - 1].model or items[number - 1].prompt):
        number -= 1
    end = number
    while number and items[number - 1].model and (number == end or index.format in MERGED | _ANY_ORDER):
        number -= 1
    return number


def _is_apart(index: HistoryIndex, call: int, output: int) -> bool:
    if index.format in _ANY_ORDER:
        return output < call
    if index.format in TOGETHER:
        return output != call + 1
    between = index.items[call + 1 : output]
    if index.format in MERGED:
        # Several messages of the model in a row count as one, so an output may follow the last of them.
        while between and between[0].model:
            between = between[1:]
    return output < call or any(not item.outputs or item.prompt for item in between)


def half_characters(value: Value, at: Pointer = ()) -> Iterator[Fault]:
    """Yields a fault for each text and each key of a body that contains half of a surrogate pair.

    The fault of a key has the pointer to its value; if both contain a half, there is one fault for both.
    """
    if is_text(value):
        if not is_utf8(value):
            yield Fault("half", at)
        return
    for key, one in as_object(value).items():
        if not is_utf8(key) and (not is_text(one) or is_utf8(one)):
            yield Fault("half", (*at, key))
        yield from half_characters(one, (*at, key))
    for number, one in enumerate(as_list(value)):
        yield from half_characters(one, (*at, number))


def find_escaped_halves(body: Value, index: HistoryIndex) -> list[Fault]:
    """Returns a fault for each JSON text of arguments in which an escape stands for half of a surrogate pair."""
    sites = [(number, site) for number, item in enumerate(index.items) for call in item.calls for site in call.sites]
    arguments = [(number, site.at, get(body, site.at)) for number, site in sites if site.form == "json"]
    return [
        Fault("half", at, number) for number, at, text in arguments if is_text(text) and without_halves(text) != text
    ]


def without_halves(text: Text) -> Text:
    """Returns JSON text in which U+FFFD replaces each escape of half of a surrogate pair; unchanged if it has none."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    # Two backslashes stand for a backslash, so the second one does not begin an escape.
    escapes = str(text).replace("\\\\", "\0\0")  # now every backslash begins an escape
    return _LONE.sub(r"\\ufffd", escapes).replace("\0\0", "\\\\")


def describe_faults(faults: Sequence[Fault], *, mended: bool = False) -> list[str]:
    """Returns sentences on at most MAX_NOTES faults, with pointers: what is wrong or, if `mended`, what was done.

    In a pointer, U+FFFD replaces each half of a surrogate pair.
    """
    says = _MENDED if mended else {kind: f"{text}; providers refuse it" for kind, text in _SAYS.items()}
    notes = [f"{_pointer(fault)} {says[fault.kind]}." for fault in faults[:MAX_NOTES]]
    if len(faults) > MAX_NOTES:
        notes.append(f"{len(faults) - MAX_NOTES:,} more like these.")
    if notes and not mended:
        notes.append("`repair: true` mends these.")
    return notes


def _pointer(fault: Fault) -> str:
    return render(fault.at).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_MENDED: Final = {
    "no call": "was left out: its call is not in this history",
    "no output": "was given an output that says that none was recorded",
    "apart": "was moved to directly after its call",
    "half": "contained half of a surrogate pair; U+FFFD replaced it",
}
