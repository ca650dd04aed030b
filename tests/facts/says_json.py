"""What `json` says of the facts of a document."""

import json
import re
from collections.abc import Mapping
from typing import Final, cast

from facts.found_records import JsonLists
from facts.paths import Step, leading_path, values_at
from facts.says_records import RecordsOracle

_SPECIAL: Final = set(' ,;:"[]{}\n\r\t')
_LONGEST: Final = 80
_COUNTED: Final = {"document", "large"}
"""Forms of which lengths and values are told."""


class JsonOracle:
    """Understands values, keys, lengths and cells."""

    def __init__(
        self, value: object, form: str = "document", lines: int = 0, failed: Mapping[str, frozenset[int]] | None = None
    ) -> None:
        """What `form` says: `document`; `lines` of which `value` is the list; `broken`: cut from a whole one; `large`.

        Of a large one the members are known, and keys as far as its beginning has them. `failed`: by the place of a
        list, which of its records failed.
        """
        self._value = value
        self._form = form
        self._lines = lines
        others = lines - len(cast("list[object]", value)) if form == "lines" else 0
        self._records = RecordsOracle(find=JsonLists(value, failed).at, others=others)

    def __call__(self, line: str) -> bool:
        if self._form != "broken" and self._records(line):
            return True
        if line.startswith("$"):
            self._keys(line)
            return True
        if found := re.fullmatch(r"JSON lines; keys of (all|the first) (\d+):", line):
            assert self._form == "lines"
            assert 1 < int(found[2]) <= self._lines
            assert found[1] == "the first" or int(found[2]) == self._lines
            return True
        if line in {"Keys of its beginning only:", "Not well-formed JSON; keys as far as it can be read:"}:
            assert self._form == "broken" or (self._form == "large" and line.startswith("Keys of"))
            return True
        if found := re.match(r"Notebook, (\d+) cells?: ", line):
            self._cells(line[found.end() :], int(found[1]))
            return True
        return self._form in _COUNTED and isinstance(self._value, dict) and self._scalars(line, 0)

    def _scalars(self, line: str, at: int) -> bool:
        """The line is a list of members that are in the document, each with its value."""
        value = cast("dict[str, object]", self._value)
        named: list[tuple[str, object]] = list(value.items())
        named += [
            (f"{key}[0]", cast("list[object]", each)[0]) for key, each in named if isinstance(each, list) and each
        ]
        for key, member in list(named):
            if isinstance(member, dict):
                named += [(f"{key}.{inner}", each) for inner, each in cast("dict[str, object]", member).items()]
        decoder = json.JSONDecoder()
        while True:
            for name, member in named:
                if not line.startswith(f"{name}=", at) or isinstance(member, dict | list):
                    continue
                try:
                    shown, end = decoder.raw_decode(line, at + len(name) + 1)
                except ValueError:
                    continue
                if (
                    (_is_cut(shown, member) or shown == member)
                    and type(shown) is type(member)
                    and line[end : end + 2] in {"", ", "}
                ):
                    break
            else:
                return False
            if end == len(line):
                return True
            at = end + 2

    def _keys(self, line: str) -> None:
        steps, at = leading_path(line)
        assert line[at : at + 2] == ": ", line
        at += 2
        places = list(values_at(self._value, steps))
        assert places, f"no such place: {line[:120]!r}"
        if found := re.compile(r"(\d+) elements?(?:; |$)").match(line, at):
            assert self._form == "document"
            assert [len(cast("list[object]", place)) for place in places] == [int(found[1])], line[:120]
            at = found.end()
        if at == len(line):
            return
        if found := re.compile(r"(?:(\d+) )?keys? such as ").match(line, at):
            keys = _names(places)
            assert found[1] is None or int(found[1]) == len(keys), f"{len(keys)} keys: {line[:120]!r}"
            assert self._listed(line, found.end(), places, steps), line[:200]
            return
        assert self._listed(line, at, places, steps), line[:200]

    def _listed(self, line: str, at: int, places: list[object], steps: list[Step]) -> bool:
        """The rest of the line names keys that are there, with the lengths that their arrays have."""
        del steps
        forms = sorted(((_shown(key), key) for key in _names(places)), key=lambda form: -len(form[0]))
        stack = [(at, 1)]
        while stack:
            at, shown = stack.pop()
            for form, key in forms:
                if not line.startswith(form, at):
                    continue
                end = at + len(form)
                if (end := self._told(line, end, places, key)) < 0:
                    continue
                if end == len(line):
                    return True
                if line[end:] == ", …":
                    assert shown < len(forms), f"nothing is left out: {line[:200]}"
                    return True
                if line.startswith(", ", end):
                    stack.append((end + 2, shown + 1))
        return False

    def _told(self, line: str, at: int, places: list[object], key: str) -> int:
        """Where that ends which the line says of the members of this name; -1 where it is not true."""
        if line.startswith("=", at):
            return _values(line, at + 1, places, key, exact=self._form in _COUNTED)
        if (found := re.compile(r"\[(\d+)\]").match(line, at)) is None:
            return at
        true = self._form in _COUNTED and all(size == int(found[1]) for size in _lengths(places, key))
        return found.end() if true else -1

    def _cells(self, told: str, count: int) -> None:
        notebook = cast("dict[str, list[dict[str, object]]]", self._value)
        cells = notebook["cells"]
        assert count == len(cells)
        at = 0
        for number, cell in enumerate(cells[:40]):
            source = cell.get("source", "")
            text = source if isinstance(source, str) else "".join(cast("list[str]", source))
            first = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
            name = f"cell {number} {cell['cell_type']}" + (f": {first}" if first else "")
            name = name if len(name) <= 120 else name[:119] + "…"
            assert told.startswith(name, at), (name, told[at : at + 150])
            at += len(name)
            errors = [
                out for out in cast("list[dict[str, str]]", cell.get("outputs", [])) if out["output_type"] == "error"
            ]
            if errors:
                failed = f" (failed: {errors[0]['ename']}: {errors[0]['evalue']}"[:115]
                assert told.startswith(failed, at), (failed, told[at : at + 100])
                at = told.index(")", at + len(failed)) + 1
            elif printed := re.compile(r" \(printed: ").match(told, at):
                out = "\n".join(_printed(each) for each in cast("list[dict[str, object]]", cell["outputs"]))
                lines = [" ".join(line.split()) for line in out.split("\n")]
                last = [line for line in lines if 0 < len(line) <= _LONGEST][-1]
                assert told.startswith(f"{last})", printed.end()), (last, told[at : at + 100])
                at = printed.end() + len(last) + 1
            at += 2
        rest = told[at:]
        assert rest == (f"… {len(cells) - 40} more" if len(cells) > 40 else ""), rest


def _is_cut(shown: object, member: object) -> bool:
    """Whether one is the beginning of the other, with a mark that says so."""
    if not isinstance(shown, str) or not isinstance(member, str):
        return False
    return member.startswith(shown[:-1]) and shown.endswith("…") and len(member) > len(shown) > _LONGEST


def _printed(output: dict[str, object]) -> str:
    data = cast("dict[str, object]", output.get("data", {}))
    text = output.get("text") or data.get("text/plain", "")
    return text if isinstance(text, str) else "".join(cast("list[str]", text))


def _values(line: str, at: int, places: list[object], key: str, *, exact: bool) -> int:
    """Where the values end that the line says members of this name have; -1 if they have others, or not those."""
    held = [cast("dict[str, object]", place) for place in places if isinstance(place, dict) and key in place]
    wanted = {json.dumps(place[key]) for place in held}
    told: list[str] = []
    decoder = json.JSONDecoder()
    while not line.startswith("…", at):
        try:
            value, at = decoder.raw_decode(line, at)
        except ValueError:
            return -1
        told.append(json.dumps(value))
        if not line.startswith(" or ", at):
            complete = not exact or len(told) == len(wanted)
            return at if complete and len(set(told)) == len(told) and wanted.issuperset(told) else -1
        at += len(" or ")
    return at + 1 if len(set(told)) == len(told) and wanted.issuperset(told) else -1


def _names(places: list[object]) -> dict[str, None]:
    return {key: None for place in places if isinstance(place, dict) for key in cast("dict[str, object]", place)}


def _lengths(places: list[object], key: str) -> list[int]:
    """How long the arrays are that are members of this name."""
    members = [cast("dict[str, object]", place).get(key) for place in places if isinstance(place, dict)]
    return [len(cast("list[object]", member)) for member in members if isinstance(member, list)]


def _shown(key: str) -> str:
    clipped = key if len(key) <= _LONGEST else f"{key[: _LONGEST - 1]}…"
    return clipped if clipped and not set(clipped) & _SPECIAL else f'"{clipped}"'
