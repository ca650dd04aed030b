"""Checks whether each URL, quotation and artifact ID in a model's answer appears in what the model read.

The sources are the texts of tool results, as the model read them. They show which addresses and artifact IDs the model
knew. A card shows only part of an artifact. So if no source contains a quotation, the service looks for it: in the
artifact that the answer cites beside it, and in the artifacts that the sources name. Words are compared, not meanings:
a sentence may appear in a source and still be misused. What could not be examined is `unchecked`, never `unsupported`.

A quotation has at least four words and 20 bytes, and is in quotation marks within a paragraph, or in a block quote.
Code and JSON contain no quotations, but URLs and IDs count everywhere.
"""

# ruff: noqa: RUF001 - quotation marks and dashes of all languages

import re
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, Literal, cast

import msgspec
from msgspec import Struct

from coatcheck_client.contract.canonical import MAX_URL, canonical
from coatcheck_client.contract.quotations import FUZZY_CHARS, QUOTE_CHARS, WORD, QuotableText, verify
from coatcheck_client.results import Members, Verdict

QUOTATIONS: Final = 100
"""Maximum quotations and sections that are searched for beyond an exact match; also the maximum of one service call."""
ARTIFACTS: Final = 50
"""Maximum artifacts named in the sources in which a quotation is searched for."""
_LEAST_WORDS: Final = 4
"""Minimum words of a quotation, without URLs."""
_LEAST_BYTES: Final = 20
"""Minimum bytes of a quotation in UTF-8, without URLs."""
_NEAR: Final = 120
"""Maximum characters between a quotation and its citation."""
_SHOWN: Final = 160
"""Maximum characters of a text that a line of a report shows."""
_EMPTY: Final = frozenset({"section_not_found", "invalid_artifact_id", "not_text"})
"""Codes of the service's problems after which it is certain that the cited artifact or section has no quotation."""

_SIGNS: Final = r"\s<>\"`|\\^{}\[\]“”„«»‹›「」『』。、，；：！？（）…"
"""What ends an address or a section's name, as members of a character class."""
_URL: Final = re.compile(rf"(?:https?://(?:\[[0-9a-f:.]+\])?|www\.)[^{_SIGNS}]{{1,{MAX_URL}}}", re.IGNORECASE)
_CITATION: Final = re.compile(rf"(?<!\w)(art_[0-9]{{12,}})(?:#([^{_SIGNS}(),;]{{1,200}}))?")
_ENDS: Final = ".,;:!?'*_~"
"""Punctuation that may follow an address or a section's name, and is not its end."""
_QUOTATION_PAIRS: Final = ("“”", "„“”", "‚‘’", "«»", "»«", "‹›", "「」", "『』", "””", "＂＂", "〝〞〟")
"""In each entry, the first character opens a quotation, and any of the others closes it."""
_ALIKE: Final = (
    r"(?<!\w)\"(?=\S)([^\"]+)(?<=\S)\"(?!\w)",
    r"‘([^‘’]*(?:(?<=\w)’(?=\w)[^‘’]*)*)’(?!\w)",
    r"(?<![\w'])'(?=\w)([^']*(?:(?<=\w)'(?=\w)[^']*)*)(?<=\S)'(?!\w)",
)
"""Quotations in marks that are the same on both sides, or look like the apostrophes within words."""
_QUOTED: Final = re.compile("|".join([*(f"{each[0]}([^{each}]+)[{each[1:]}]" for each in _QUOTATION_PAIRS), *_ALIKE]))
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE: Final = re.compile(r"`[^`\n]+`")
_BLOCK: Final = re.compile(r"^ {0,3}>[> ]*", re.MULTILINE)
_MARKUP: Final = re.compile(rf"\[([^\[\]]*)\]\([^()\s]*\)|\*+|__|`|[\[(]?{_CITATION.pattern}[\])]?")
_SENTENCE_END: Final = re.compile(r"[.!?]\s|\n")

CitationVerdict = Literal["supported", "inexact", "unsupported", "unchecked"]
CitationKind = Literal["URL", "quotation", "artifact"]
_Cited = tuple[int, int, str]
"""Where an answer cites an artifact: start, end, and the citation."""


class CheckedCitation(Struct, kw_only=True):
    """One URL, quotation or artifact ID of an answer, and the result of its check."""

    kind: CitationKind
    text: str
    """The text as it appears in the answer."""
    line: int
    """The line of the answer in which the text begins, from 1."""
    verdict: CitationVerdict = "unsupported"
    """`supported`: a source contains it, or an artifact does, word by word. `inexact`: another address of a known page,
    similar words, or outside the cited section. `unsupported`: no source contains it. `unchecked`: it is not known."""
    where: str | None = None
    """Where it appears: `art_…#r1`, or `source 2, line 14`, both counted from 1; None if it was not found."""
    detail: str = "stands in no source"
    """What was found, or why it could not be examined. Continues a sentence that begins with the text."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.kind} {_shown(self.text)} {self.detail}"

    def set(self, verdict: CitationVerdict, where: str | None, detail: str) -> None:
        """Sets the result of the check."""
        self.verdict, self.where, self.detail = verdict, where, detail


class AnswerReport(Struct, frozen=True):
    """The URLs, quotations and artifact IDs of an answer, in the order in which they appear."""

    citations: tuple[CheckedCitation, ...]

    def of(self, *verdicts: CitationVerdict) -> list[CheckedCitation]:
        """Returns the citations with one of these verdicts."""
        return [each for each in self.citations if each.verdict in verdicts]

    def describe(self, *verdicts: CitationVerdict, limit: int | None = None) -> str:
        """Returns a line for each citation with one of these verdicts; after `limit` lines, how many more there are."""
        chosen = self.of(*verdicts)
        lines = [str(each) for each in chosen[:limit]]
        return "\n".join(lines + [f"and {len(chosen) - len(lines):,} more"] * (len(lines) < len(chosen)))


class _Source:
    """A text that the model read, or the texts in it if it is JSON."""

    def __init__(self, number: int, given: str) -> None:
        texts = _texts_of_json(given)
        self.given, self.text = given, given if texts is None else "\n".join(texts)
        self._name, self._breaks = f"source {number}", _breaks(given) if texts is None else None

    def at(self, position: int) -> str:
        return self._name if self._breaks is None else f"{self._name}, line {bisect_left(self._breaks, position) + 1}"

    def find(self, words: str) -> str | None:
        position = self.text.find(words)
        return self.at(position) if position >= 0 else self._name if words in self.given else None


class _Examination(Struct, kw_only=True):
    """The search for a quotation, or for a cited section. A section has no words."""

    checked: CheckedCitation
    words: str
    cited: str | None
    artifacts: list[str]
    """Artifacts or sections in which the service still has to look, the most likely first."""
    unknown: str = ""
    """Why the quotation may appear elsewhere after all; empty if everything was searched."""
    ratio: float = 0.0
    """Share of common words of the best inexact match so far."""
    is_exact: bool = False

    def take_match(self, verdict: str, where: str, text: str, ratio: float, *, moved: bool = False) -> None:
        """Takes a match, unless a better one is known."""
        if verdict in {"exact", "normalised"}:
            self.is_exact = True
            self.checked.set("supported", where, f"stands in {where}")
            if moved:
                self.checked.set("inexact", where, f"stands in {where}, not in {self.cited}, which is cited")
        elif verdict == "fuzzy" and ratio > self.ratio and self.checked.verdict != "supported":
            self.ratio = ratio
            self.checked.set("inexact", where, f"differs from {_shown(text)} in {where}")

    def take_answer(self, found: Members) -> None:
        """Takes the service's result for the first of `artifacts`."""
        moved = bool(found.get("moved")) or (self.cited or "").startswith(f"{self.artifacts[0]}#")
        where, ratio = str(found.get("stands_in")), float(found.get("ratio") or 0)
        verdict = str(found.get("verdict")) if self.words else "exact"
        self.take_match(verdict, where if self.words else self.artifacts[0], str(found.get("text")), ratio, moved=moved)
        if found.get("partial"):
            self.unknown = f"only part of {self.artifacts[0]} was searched"


class AnswerCheck:
    """One check without I/O: what the sources show, what to send to the service, and the report."""

    def __init__(self, answer: str, sources: Iterable[str], seconds: float = 5.0) -> None:
        """Examines what needs no service, for about `seconds` at most."""
        self._ends = time.monotonic() + seconds
        self._answer, self._breaks = answer, _breaks(answer)
        given = [sources] if isinstance(sources, str) else sources
        self._sources = [_Source(number, text) for number, text in enumerate(given, 1)]
        self._artifacts = dict.fromkeys(match[1] for one in self._sources for match in _CITATION.finditer(one.text))
        self._checked: list[tuple[int, CheckedCitation]] = []
        self._examined: list[_Examination] = []
        self._check_urls()
        self._check_quotations(self._check_artifacts())

    def next_quotes(self) -> list[dict[str, str]]:
        """Returns what to verify next, for `POST /v1/citations/verify`; empty if nothing is left to verify."""
        return [{"quote": each.words or each.artifacts[0], "citation": each.artifacts[0]} for each in self._open()]

    def take(self, results: Sequence[Verdict]) -> None:
        """Takes the service's results for what `next_quotes` returned.

        Raises:
            ValueError: the number of results differs from that of the quotations.
        """
        for examined, result in zip(self._open(), results, strict=True):
            problem, is_known = result.problem or {}, examined.artifacts[0].partition("#")[0] in self._artifacts
            if result.checked is not None:
                examined.take_answer(result.checked)
            elif is_known and problem.get("code") not in _EMPTY:
                examined.unknown = str(problem.get("detail"))
            del examined.artifacts[0]

    def report(self, unasked: str = "no service was asked") -> AnswerReport:
        """Returns what is known now; `unasked` says why the service was not asked about the rest."""
        for each in self._examined:
            unknown = each.unknown or (unasked if each.artifacts else "")
            if unknown and not each.is_exact and each.checked.verdict != "supported":
                each.checked.set("unchecked", each.checked.where, f"was not checked: {unknown}")
        return AnswerReport(tuple(checked for _, checked in sorted(self._checked, key=lambda each: each[0])))

    def _open(self) -> list[_Examination]:
        return [each for each in self._examined if each.artifacts and not each.is_exact]

    def _is_late(self) -> bool:
        return time.monotonic() >= self._ends

    def _add(self, kind: CitationKind, text: str, start: int) -> CheckedCitation:
        checked = CheckedCitation(kind=kind, text=text, line=bisect_left(self._breaks, start) + 1)
        self._checked.append((start, checked))
        return checked

    def _examine(self, checked: CheckedCitation, words: str, cited: str | None, artifacts: list[str]) -> None:
        examined = _Examination(checked=checked, words=words, cited=cited, artifacts=artifacts)
        if words and len(self._artifacts) > ARTIFACTS:
            examined.unknown = f"only {ARTIFACTS} artifacts are searched"
        if len(words) > QUOTE_CHARS:
            examined.artifacts, examined.unknown = [], f"it has more than {QUOTE_CHARS:,} characters"
        if len(self._examined) >= QUOTATIONS:
            examined.artifacts, examined.unknown = [], f"only {QUOTATIONS} are looked for"
        self._examined.append(examined)

    def _check_urls(self) -> None:
        known: dict[str, str] = {}
        pages: dict[str, str] = {}
        for source in self._sources:
            for match in _URL.finditer(source.text):
                url = _without_ends(match[0].replace("&amp;", "&"))
                if url not in known and not self._is_late():
                    known[url] = source.at(match.start())
                    pages.setdefault(_page(url), url)
        for match in _URL.finditer(self._answer):
            url = _without_ends(match[0])
            start = _without_ends(re.split(r"[^!-~]", url, maxsplit=1)[0])  # some languages put no space after it
            checked = self._add("URL", url, match.start())
            if where := known.get(url) or known.get(start):
                checked.set("supported", where, f"stands in {where}")
            elif self._is_late():
                checked.set("unchecked", None, "was not checked: time ran out")
            elif page := pages.get(_page(url)) or pages.get(_page(start)):
                checked.set("inexact", known[page], f"is the page {page} in {known[page]}")

    def _check_artifacts(self) -> list[_Cited]:
        cited: list[_Cited] = []
        for match in _CITATION.finditer(self._answer):
            artifact_id, section = match[1], (match[2] or "").rstrip(_ENDS)
            citation = f"{artifact_id}#{section}" if section else artifact_id
            cited.append((match.start(), match.end(), citation))
            checked = self._add("artifact", citation, match.start())
            if artifact_id not in self._artifacts:
                continue
            word = re.compile(rf"(?<![\w-]){re.escape(section or artifact_id)}(?![\w-])")
            for source in () if self._is_late() else self._sources:
                if checked.where is None and artifact_id in source.text and (name := word.search(source.text)):
                    checked.set("supported", source.at(name.start()), f"is named in {source.at(name.start())}")
            if checked.where is None:
                self._examine(checked, "", None, [citation])
        return cited

    def _check_quotations(self, cited: list[_Cited]) -> None:
        quotations, artifacts, used = _quotations(self._answer), list(self._artifacts)[:ARTIFACTS], 0
        for (start, end, text, words), following in zip(quotations, [*quotations[1:], None], strict=False):
            near = _nearest(self._answer, cited, (start, end), (used, following[0] if following else len(self._answer)))
            used, citation = (near[1], near[2]) if near else (end, None)
            beside = list(dict.fromkeys([citation, citation.partition("#")[0]])) if citation else []
            checked, where = self._add("quotation", text, start), None
            for source in () if self._is_late() else self._sources:
                where = where or source.find(text) or source.find(words)
            if where is None:
                self._examine(checked, words, citation, list(dict.fromkeys([*beside, *artifacts])))
            else:
                checked.set("supported", where, f"stands in {where}")
                if len(beside) > 1:  # a source contains it, but the cited section may not
                    self._examine(checked, words, citation, beside)
        missing = [each for each in self._examined[:QUOTATIONS] if each.words and each.checked.where is None]
        for source in self._sources:
            text = QuotableText(source.text)
            for each in missing:
                match = None if self._is_late() else verify(each.words, text)
                if match is not None and match.at is not None:
                    each.take_match(match.verdict, source.at(match.at.start), match.text, match.ratio)
                elif match is None or len(source.text) > FUZZY_CHARS:
                    each.unknown = each.unknown or f"{source.at(0)} was not searched completely"


def check_answer(answer: str, sources: Iterable[str], *, seconds: float = 5.0) -> AnswerReport:
    """Checks an answer against its sources alone; the `check_answer` of a client also uses the service."""
    return AnswerCheck(answer, sources, seconds).report()


def _quotations(answer: str) -> list[tuple[int, int, str, str]]:
    """Returns the quotations of an answer: start, end, text, and words without markup and citations."""
    quotations: list[tuple[int, int, str, str]] = []
    for kind, start, end in _runs(answer):
        # Code and marks of block quotes are replaced by as many characters, so that positions stay the same.
        prose = _CODE.sub(lambda match: "x" * len(match[0]), answer[start:end])
        prose = _BLOCK.sub(lambda match: " " * len(match[0]), prose) if kind == "block" else prose
        spans = [match.span(match.lastindex or 0) for match in _QUOTED.finditer(prose)]
        inner = [each for span in spans if (each := _quotation(answer, start + span[0], start + span[1]))]
        whole = [_quotation(answer, start, end)] if kind == "block" and not inner else []
        quotations += [each for each in (*inner, *whole) if each is not None]
    return quotations


def _runs(answer: str) -> list[tuple[str, int, int]]:
    """Returns the paragraphs and block quotes of an answer: kind, start, end. JSON has none."""
    if answer.lstrip()[:1] in {"{", "["} and _texts_of_json(answer) is not None:
        return []
    runs, fence, at = [("", 0, 0)], "", 0
    for line in answer.split("\n"):
        mark = _FENCE.match(line)
        kind = "code" if fence or mark else "block" if _BLOCK.match(line) else "text" if line.strip() else ""
        if mark and mark[1].startswith(fence):
            fence = "" if fence else mark[1]
        start = runs.pop()[1] if runs[-1][0] == kind else at
        runs.append((kind, start, at + len(line)))
        at += len(line) + 1
    return [run for run in runs if run[0] in {"text", "block"}]


def _quotation(answer: str, start: int, end: int) -> tuple[int, int, str, str] | None:
    text = _BLOCK.sub("", answer[start:end]).strip()
    before, _, last = text.rpartition("\n")
    text = before if before and last.lstrip().startswith(("—", "–", "--")) else text  # without the author's name
    words = _MARKUP.sub(lambda match: match[1] or "", text).strip(" \n,;:")
    bare = _URL.sub("", words)
    if len(bare.encode("utf-8", "replace")) < _LEAST_BYTES:
        return None
    is_quotation = len(list(islice(WORD.finditer(bare), _LEAST_WORDS))) == _LEAST_WORDS
    return (start, end, text, words) if is_quotation else None


def _nearest(answer: str, cited: list[_Cited], span: tuple[int, int], bounds: tuple[int, int]) -> _Cited | None:
    """Returns the nearest citation in a quotation or beside it; citations in the same sentence come first."""
    start, end = span
    first = bisect_left(cited, (max(bounds[0], start - _NEAR),))
    last = bisect_left(cited, (min(bounds[1], end + _NEAR),))

    def distance(citation: _Cited) -> tuple[bool, int]:
        gap = answer[end : citation[0]] if citation[0] >= end else answer[citation[1] : start]
        return _SENTENCE_END.search(gap) is not None, len(gap)

    return min(cited[first:last], key=distance, default=None)


def _page(url: str) -> str:
    return canonical(url if url[:4].lower() == "http" else f"https://{url}") or url


def _without_ends(url: str) -> str:
    """Returns an address without the punctuation and brackets of the text around it."""
    end, excess = len(url), url.count(")") - url.count("(")
    while end and (url[end - 1] in _ENDS or (url[end - 1] == ")" and excess > 0)):
        excess -= url[end - 1] == ")"
        end -= 1
    return url[:end]


def texts(value: object) -> list[str]:
    """Returns all texts in a JSON value, without those of `cache_control`, which only says where a cache begins."""
    if isinstance(value, dict):
        value = [each for name, each in cast("dict[str, object]", value).items() if name != "cache_control"]
    inner = cast("list[object]", value) if isinstance(value, list) else []
    return [value] if isinstance(value, str) else [text for each in inner for text in texts(each)]


def _texts_of_json(text: str) -> list[str] | None:
    """Returns the texts in JSON; None if the text is not JSON."""
    try:
        return texts(msgspec.json.decode(text)) if text[:100].lstrip()[:1] in {"{", "[", '"'} else None
    except (ValueError, RecursionError):
        return None


def _breaks(text: str) -> list[int]:
    return [match.start() for match in re.finditer("\n", text)]


def _shown(text: str) -> str:
    return repr(" ".join((text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…").split()))
