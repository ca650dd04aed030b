"""Finds the parts of a call's arguments that can become markers: long texts, long lists or objects, whole documents.

All copies of the same value form one unit, so that they change together. A value keeps its JSON type: a list becomes a
list with a marker, and an object becomes an object with a marker beside its short members. If the provider defines the
types of the arguments, only texts and lists of texts become markers: any other list or object allows no text inside.
"""

from collections.abc import Iterator
from math import isfinite
from typing import Final, final

from msgspec import Struct

from coatcheck.core.context.body.encoding import (
    JsonForm,
    Object,
    Value,
    as_list,
    as_object,
    dump_value,
    plain,
    serialise_canonical,
)
from coatcheck.core.context.body.model import HistoryCall, Site
from coatcheck.core.context.body.splice import MAX_DEPTH, Pointer, get, parse_document
from coatcheck.core.context.counting import Counter, estimate_escaped
from coatcheck.core.context.replaceable import ReplacementSite
from coatcheck.core.text.long_text import Text, is_ascii, is_text, small

OMITTED: Final = "omitted"
"""The member of an object that contains the marker for the removed members."""
_MEMBER_CHARS, _MEMBERS_CHARS = 200, 400
"""Maximum characters of a member that stays when the rest of the arguments is replaced, and of all such members."""
_JOINT_TOKENS: Final = 8
"""Maximum tokens by which a value costs more when it is counted alone than inside its document."""
_WHOLE_FACTOR: Final = 4
"""The whole document is replaced if its short values together have more than this multiple of the threshold."""


class ArgumentUnit(Struct):
    """A value in a call's arguments, with all sites of its copies."""

    content: Text
    """The content to store: the text, or the value as JSON."""
    tokens: int
    is_named: bool
    """Whether the value has a name that the policy lists for the tool."""
    is_json: bool
    """Whether the value is a list or an object rather than text."""
    sites: list[ReplacementSite]
    is_replaceable: bool = True
    """Whether the provider's types allow a marker in place of the value."""


@final
class ArgumentReader:
    """Finds the units in the arguments of calls."""

    def __init__(self, body: Value, counter: Counter, least: int) -> None:
        """Creates a reader that leaves values of at most `least` tokens in place."""
        self._body = body
        self._counter = counter
        self._least = least

    def units(self, call: HistoryCall, fields: frozenset[str]) -> list[ArgumentUnit]:
        """Returns the long values in a call's arguments; `fields` has the names in the policy, or `*` for all names."""
        by_content: dict[Text, ArgumentUnit] = {}
        for number, site in enumerate(call.sites):
            for unit in self._units_in(site, fields, is_counted=not number, has_schema=call.has_schema):
                unit.content = small(unit.content)  # equal copies may have been decoded into different types of text
                first = by_content.setdefault(unit.content, unit)
                if first is not unit:
                    first.is_named = first.is_named or unit.is_named
                    first.sites += unit.sites
        return list(by_content.values())

    def texts(self, call: HistoryCall) -> Iterator[tuple[ReplacementSite, Text]]:
        """Yields every string in every copy of a call's arguments."""
        for number, site in enumerate(call.sites):
            value = get(self._body, site.at)
            document = parse_document(value) if site.form == "json" else value
            for steps, text in strings_in(document):
                yield _place(site, steps, len(text), is_counted=not number), text

    def _units_in(
        self, site: Site, fields: frozenset[str], *, is_counted: bool, has_schema: bool
    ) -> list[ArgumentUnit]:
        """Returns the units in one copy of the arguments."""
        value = get(self._body, site.at)
        if is_text(value) and len(value) <= self._least:  # a token has at least one character
            return []
        document = parse_document(value) if site.form == "json" else value
        # Free text, such as that of a custom tool, is one value. JSON text that is no object is replaced as a whole, or
        # stays.
        if is_text(value) and not isinstance(document, dict):
            is_json = site.form == "json"
            is_named = not is_json and bool({"*", site.at[-1]} & fields)
            shows = "whole" if is_json else "marker"
            place = ReplacementSite(site.at, (), shows, len(value), is_counted)
            unit = ArgumentUnit(value, self._counter.text(value), is_named, is_json, [place])
            return [unit] if unit.tokens > self._least else []
        units: list[ArgumentUnit] = []
        rest = 0
        for key, member in as_object(document).items():
            member_units, member_rest = self._units_of_member(
                site, key, member, fields, is_counted=is_counted, has_schema=has_schema
            )
            units += member_units
            rest += member_rest
        # Many short values may be large together. Then the whole document is replaced, unless the policy names one of
        # its values, which is then replaced alone, or the provider requires some of its members.
        if rest > _WHOLE_FACTOR * self._least and not has_schema and not any(unit.is_named for unit in units):
            content = value if is_text(value) else serialise_canonical(document)
            place = ReplacementSite(site.at, (), "whole", len(content), is_counted)
            return [ArgumentUnit(content, self._counter.json(value), is_named=False, is_json=True, sites=[place])]
        return units

    def _units_of_member(
        self, site: Site, key: str, member: Value, fields: frozenset[str], *, is_counted: bool, has_schema: bool
    ) -> tuple[list[ArgumentUnit], int]:
        """Returns the units in one member of the arguments, and the tokens of the rest of the member."""
        units: list[ArgumentUnit] = []
        short = 0
        for steps, text in strings_in(member, (key,)):
            # A token has at least one character, and most tokens have about four, so short texts are not counted.
            tokens = self._counter.text(text) if len(text) > self._least else len(text) // 4
            if tokens > self._least:
                names = [step for step in (*site.at, *steps) if isinstance(step, str)]
                place = _place(site, steps, len(text), is_counted=is_counted)
                units.append(ArgumentUnit(text, tokens, bool({"*", names[-1]} & fields), is_json=False, sites=[place]))
            else:
                short += tokens
        if not isinstance(member, dict | list):
            return units, 0 if units else short
        content = serialise_canonical(member)
        tokens = self._counter.text(content)
        rest = max(tokens - sum(unit.tokens for unit in units), 0)
        # A long list of short values has no text that is worth a marker, but the list itself is.
        if rest > self._least and not any(unit.is_named for unit in units):
            place = _place(site, (key,), len(content), is_counted=is_counted)
            unit = ArgumentUnit(content, tokens, is_named=False, is_json=True, sites=[place])
            if not has_schema or (isinstance(member, list) and all(map(is_text, as_list(member)))):
                return [unit], 0
            unit.is_replaceable = False
            return [*units, unit], 0
        return units, rest

    def count_kept_tokens(self, unit: ArgumentUnit) -> int:
        """Returns the tokens of the short members that stay beside a unit's marker."""
        first = unit.sites[0]
        document = get(self._body, first.at) if first.shows == "whole" else None
        members = short_members(as_object(parse_document(document) if is_text(document) else document))
        return estimate_escaped(self._counter.json(members)) if members else 0

    def count_written_tokens(self, unit: ArgumentUnit) -> int:
        """Returns the tokens of a unit as it is written in the body, including escapes inside a JSON string."""
        first = unit.sites[0]
        around = get(self._body, first.at)
        if unit.is_json and is_text(around):
            value = parse_document(unit.content)
            comma, colon = (", ", ": ") if '": ' in around else (",", ":")
            text = dump_value(value, JsonForm(comma, colon, ascii=is_ascii(around))) if value else unit.content
            return estimate_escaped(self._counter.text(text)) - _JOINT_TOKENS
        if not first.inside:
            return unit.tokens
        text = dump_value(unit.content, JsonForm(ascii=not is_text(around) or is_ascii(around)))
        return estimate_escaped(self._counter.text(text))


def without(value: Value, marker: str, members: Object | None = None) -> Value:
    """Returns a replacement of the same type for a value in arguments; an object keeps `members` beside the marker."""
    if isinstance(value, dict):
        return {**(members or {}), OMITTED: marker}
    return [marker] if isinstance(value, list) else marker


def short_members(document: Object) -> Object:
    """Returns the members that stay when arguments are replaced as a whole: the first short ones, such as a path.

    A number beyond every float, such as 1e999, does not stay: it could not be written as JSON again.
    """
    short: Object = {}
    # Members that name the call stay: a path or a command is usually among the first.
    room = _MEMBERS_CHARS
    for key, one in document.items():
        size = len(key) + len(one if is_text(one) else str(one))
        writable = not isinstance(one, dict | list) and (not isinstance(one, float) or isfinite(one))
        if writable and size <= min(room, _MEMBER_CHARS):
            short[key] = plain(one)
            room -= size
    return short


def _place(site: Site, steps: Pointer, characters: int, *, is_counted: bool) -> ReplacementSite:
    if site.form == "json":
        return ReplacementSite(site.at, steps, "marker", characters, is_counted)
    return ReplacementSite((*site.at, *steps), (), "marker", characters, is_counted)


def strings_in(document: Value, steps: Pointer = ()) -> Iterator[tuple[Pointer, Text]]:
    """Yields the strings in a document with their pointers, down to a depth of MAX_DEPTH."""
    if is_text(document):
        yield steps, document
    elif len(steps) < MAX_DEPTH:
        for key, value in as_object(document).items():
            yield from strings_in(value, (*steps, key))
        for number, value in enumerate(as_list(document)):
            yield from strings_in(value, (*steps, number))
