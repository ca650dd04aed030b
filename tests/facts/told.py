"""Reads a card as a model does, word for word, and holds every number, name and range against the payload.

What is not understood is a failure: a fact that nobody checks could be false for ever.
"""

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

import jsonpath_rfc9535

from coatcheck.core.artifact import Kind
from coatcheck.core.text.lexicon import shapes_of
from coatcheck.core.text.visible_text import visible
from coatcheck.core.views.view import outer_asides
from coatcheck_client.contract.inert import inert, one_line
from core.sample_payloads import TOKENIZER
from facts.cases import Shown
from facts.paths import parsed_path, values_at

if TYPE_CHECKING:
    from jsonpath_rfc9535 import JSONValue

_FIRST: Final = re.compile(
    r"\[(art_\d{18}) · ([a-z_]+)(?: · (as text )?(\d+) lines?, (~?)(\d+) tokens?)? · stored outside this conversation"
    r"(?:; below: data, not instructions)?\]"
)
_START: Final = re.compile(r"¦ (\d+)(, part|, start cut|, end cut|, both ends cut)?")
_LAST: Final = re.compile(
    r"¦ (?:verbatim text )?left out: (\d+) (line|byte)s?( of the (?:article|main text))?(?: \((.*?)\))?"
    r"(?: ¦ Next: read_artifact\((.*)\))?",
    re.DOTALL,
)
_BYTES: Final = re.compile(r"(\S+), (\d+) bytes?, sha256 ([0-9a-f]{16})…")
_LIKE: Final = re.compile(r"(\d+) like line (\d+)")
_WITH: Final = re.compile(r"(\d+) with (.+)", re.DOTALL)
_NAMED: Final = ("Title", "URL", "Canonical", "Tool", "Command")
_DIGITS: Final = re.compile(r"[0-9]+")


def hold(shown: Shown) -> int:
    """Checks a card; returns how many fact lines it has."""
    case = shown.case
    assert not case.kinds or shown.facts.kind in case.kinds, f"taken for {shown.facts.kind}"
    for line in shown.facts.shape:
        understood(shown, line)
    lines = shown.text.split("\n")
    _first(shown, lines[0])
    ours = [n for n, line in enumerate(lines) if line.startswith("¦ ")]
    _above(shown, lines[1 : ours[0]])
    touched = _excerpts(shown, lines, ours)
    _last(shown, "\n".join(lines[ours[-1] :]), touched)
    return len(shown.facts.shape)


def understood(shown: Shown, line: str) -> None:
    """Some oracle knows the line, and says that it is true."""
    for oracle in shown.case.oracles:
        if oracle(line):
            return
    raise AssertionError(f"a fact that nobody understands: {line[:300]!r} of {shown.case.data[:120]!r}")


def _first(shown: Shown, line: str) -> None:
    found = _FIRST.fullmatch(line)
    assert found is not None, line
    assert found[1] == shown.card.id
    assert found[2] == shown.facts.kind.value
    if found[4] is None:
        return
    assert bool(found[3]) == (shown.extracted is not None)
    assert int(found[4]) == _count_lines(shown.view), line
    if not found[5]:
        assert int(found[6]) == TOKENIZER.count(shown.view.decode("utf-8", "replace"))


def _count_lines(data: bytes) -> int:
    return len(data.split(b"\n")) - (data.endswith(b"\n") or not data)


def _above(shown: Shown, lines: list[str]) -> None:
    """The lines above the excerpts: names as they were given or found, and facts, each whole or marked as clipped."""
    said, facts = shown.case.said, shown.facts
    names = {
        "Title": {said.title, facts.title},
        "URL": {said.url, facts.url},
        "Canonical": {facts.url},
        "Tool": {said.tool_name},
        "Command": {said.command},
    }
    left = [one_line(line) for line in facts.shape]
    for line in lines:
        label, _, value = line.partition(": ")
        clipped = label.endswith(" (clipped)")
        label = label.removesuffix(" (clipped)")
        if label in _NAMED and any(
            name is not None
            and (one_line(name).startswith(value.removesuffix("…")) if clipped else one_line(name) == value)
            for name in names[label]
        ):
            continue
        found = _BYTES.fullmatch(line)
        if found:
            assert int(found[2]) == len(shown.case.data)
            continue
        assert left, f"no fact: {line!r}"
        whole = left.pop(0)
        if line != whole:
            assert line.endswith(" …"), line
            _clipped(line.removesuffix(" …"), whole)
            assert not left or line is lines[-1]
        if line != whole and line.endswith("…"):
            left.clear()


def _clipped(line: str, whole: str) -> None:
    """A clipped fact says a part of the whole one, up to the end of something: no name and no number is cut in two."""
    assert whole.startswith(line), (line, whole)
    words = re.match(r"Description: |r\d+[ :]", line)
    assert line.endswith((";", ",")) or (words and whole[len(line)] in " …"), f"cut in two: {line[-80:]!r}"


def _excerpts(shown: Shown, lines: list[str], ours: list[int]) -> set[int]:
    """Every excerpt is what stands from the line on that it names. Returns the numbers of the lines that are shown."""
    payload = [line.decode("utf-8", "replace") for line in shown.view.split(b"\n")]
    plain = _plain(shown.view)
    touched: set[int] = set()
    before = 0
    for start, end in pairwise(ours):
        found = _START.fullmatch(lines[start])
        assert found is not None, lines[start]
        first = int(found[1])
        last = first + end - start - 2
        assert before <= first <= last <= _count_lines(shown.view)
        before = last
        touched.update(range(first, last + 1))
        if plain:
            body = "\n".join(lines[start + 1 : end])
            source = "\n".join(payload[first - 1 : last])
            assert body in source if found[2] else body.rstrip("\r") == source.rstrip("\r"), lines[start]
    return touched


def _plain(data: bytes) -> bool:
    """Whether nothing in the text has to be made visible or harmless."""
    text = data.decode("utf-8", "replace")
    return visible(data) in {data, data.replace(b"\r\n", b"\n")} and inert(text) == text


def _last(shown: Shown, line: str, touched: set[int]) -> None:
    """What is left out adds up, and the call that is proposed can be made."""
    total = _count_lines(shown.view)
    if not shown.case.data:
        assert line == "¦ The payload is empty."
        return
    beside = _beside(shown)
    if line.startswith(("¦ End of the article. ", "¦ End of the main text. ")):
        lines = re.findall(r"(\d+) lines?", line)
        assert beside
        assert touched | beside == set(range(1, total + 1))
        assert lines == [str(len(beside))]
        return
    if line.startswith(("¦ End. ", "¦ End of the text. ")):
        assert not beside
        assert touched == set(range(1, total + 1))
        return
    if shown.extracted is None and shown.facts.kind in {Kind.BINARY, Kind.IMAGE}:
        assert line == "¦ Its bytes are kept under this ID; they are not text to read." or re.fullmatch(
            r'¦ Next: read_artifact\(artifact_id="art_\d+"\) reads its text, where this service can extract it\.', line
        )
        return
    found = _LAST.fullmatch(line)
    assert found is not None, line
    if found[2] == "line":
        assert int(found[1]) == total - len(touched | beside if found[3] else touched), line
    else:
        assert len(touched) in {total, 0}
        assert 0 < int(found[1]) <= len(shown.view)
    hidden = _hidden(shown, touched)
    for part in found[4].split(", ") if found[4] else ():
        _named(shown, part, hidden)
    if found[5] is not None:
        _call(shown, found[5], hidden, total)


def _beside(shown: Shown) -> set[int]:
    """The lines of asides."""
    asides = () if shown.extracted is None else outer_asides(shown.extracted.sections)
    return {line for aside in asides for line in range(aside.line, aside.line + aside.lines)}


def _hidden(shown: Shown, touched: set[int]) -> dict[int, str]:
    seen = visible(shown.view).decode("utf-8", "replace").split("\n")
    return {n: line for n, line in enumerate(seen[: _count_lines(shown.view)], 1) if n not in touched}


def _named(shown: Shown, part: str, hidden: dict[int, str]) -> None:
    """How many of the lines left out say a word of failure, or are like one that is shown in all but numbers."""
    like = _LIKE.fullmatch(part)
    if like is not None:
        seen = visible(shown.view)
        shapes = shapes_of(seen)  # which tell apart what a number makes a failure
        one = int(like[2])
        assert one not in hidden
        alike = sum(shapes[line - 1] == shapes[one - 1] for line in hidden)
        # Of lines with fields, what is alike is their messages.
        assert alike <= int(like[1]) <= (alike if shown.facts.fields is None else len(hidden)), part
        return
    found = _WITH.fullmatch(part)
    assert found is not None, f"not understood: {part!r}"
    assert int(found[1]) == sum(found[2] in one_line(line) for line in hidden.values()), part


def _call(shown: Shown, written: str, hidden: dict[int, str], total: int) -> None:
    arguments: dict[str, str] = dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\d+)', written, re.DOTALL))
    assert re.sub(r'(?:…|\w+=(?:"(?:[^"\\]|\\.)*"|\d+))(?:, )?', "", written, flags=re.DOTALL) == "", written
    if "artifact_id" in arguments:
        assert arguments.pop("artifact_id") == f'"{shown.card.id}"'
    if "pattern" in arguments:
        word = json.loads(arguments["pattern"])
        assert any(word in one_line(line) for line in hidden.values()), written
    elif "section" in arguments:
        title = arguments["section"][1:-1].replace('\\"', '"').replace("\\\\", "\\")
        titles = [] if shown.extracted is None else [each.title for each in shown.extracted.sections]
        names = [] if shown.extracted is None else [each.name for each in shown.extracted.sections]
        begun = [each for each in titles if each.casefold().startswith(title.casefold())]
        assert title in {*shown.facts.sections, *titles, *names} or len(begun) == 1, written
    elif "path" in arguments:
        path = arguments["path"][1:-1].replace('\\"', '"').replace("\\\\", "\\")
        document = shown.case.document
        if "[?@" in path and "==" not in path:
            assert jsonpath_rfc9535.find(path, cast("JSONValue", document)), path
        else:  # the library takes `true` for 1
            assert list(values_at(document, parsed_path(path))), path
    elif "+" in arguments["offset"]:
        line, _, inside = arguments["offset"].strip('"').partition("+")
        assert int(inside) < len(shown.view.split(b"\n")[int(line) - 1])
    else:
        offset = int(arguments["offset"])
        assert 1 <= offset <= total
        assert offset + int(arguments.get("limit", "1")) - 1 <= total
