"""Describes texts and delimited tables: files of a diff, commits, symbols, headings, records, the first row."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.extract.headings import extract_headings, reads_as_document
from coatcheck.core.extract.manual import is_manual
from coatcheck.core.kinds.description import NOTHING, OUTLINE, Description, PayloadProbe, select_named_parts
from coatcheck.core.outline.landmarks import DIFF, OUTPUT, PROSE, SOURCE, landmarks
from coatcheck.core.outline.line_scanner import is_log, is_oneline
from coatcheck.core.outline.model import MAX_ENTRIES, Landmarks, OutlineEntry, details_of
from coatcheck.core.outline.section_names import of_sections, without_arguments
from coatcheck.core.outline.summary import DiffTotals, size_of, summary, totals_of
from coatcheck.core.outline.yaml_parts import yaml_form
from coatcheck.core.records.counts import documents_in, records_in
from coatcheck.core.records.describe import RecordFacts, tell
from coatcheck.core.records.lines import facts_of_lines, facts_of_pairs, facts_of_words
from coatcheck.core.records.tables import begins_with_values, read_delimited, rows_of
from coatcheck.core.structure import Table, read_drawn_rows, read_table
from coatcheck.core.text.count import first_of, format_count

_MAX_COMMITS: Final = 30
"""Maximum commits that are named. Chosen, not measured."""
_HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning that tell commits and manuals from other texts."""
_OUTLINED_BYTES: Final = 64 * 1024
"""Bytes at the beginning that are examined, in about 2 ms. For a larger text, the facts say how many lines these
are."""
_SOURCE: Final = 256 * 1024
"""Bytes at the beginning of a source file or a document that are examined, in 8 ms; half as many if the sample does not
have the whole file."""


def describe_diff(payload: PayloadProbe) -> Description:
    """Returns the commits and files of a complete diff, largest changes first; nothing if a file cannot be counted.

    For a diff that the sample does not contain whole, the survey has these facts.
    """
    if not payload.sample.whole:
        return Description(parts=OUTLINE)
    entries, totals = landmarks(DIFF, (), payload.sample.head), DiffTotals()
    if len(entries) < MAX_ENTRIES:
        changes = ([each.added, each.removed or 0] if each.added is not None else None for each in entries)
        totals.add((each.what, each.title, lines) for each, lines in zip(entries, changes, strict=True))
    else:
        totals.feed(payload.sample.head)
    facts, files = totals.facts(), {each.title: each for each in entries if each.what == "file"}
    return Description(facts=facts, parts=select_named_parts([files[name] for name in totals.sections()]))


def describe_output(payload: PayloadProbe) -> Description:
    """Returns records or commits of a text that is available in full; for a larger one, its survey has the records.

    If there are no records, a document or a source file that a tool printed is described by its headings or symbols.
    """
    listing = _describe_list(payload)
    if not payload.sample.whole:
        data, where = _first_lines(payload.sample)
        blocks = [entry for entry in landmarks(OUTPUT, (), data) if entry.what == "block"]
        return listing or _describe_entries(blocks, where) or NOTHING
    text = (payload.lines or payload.sample).head
    if records := tell(records_in(text)).facts:
        return _beside(records, listing or _describe_outline(payload, OUTPUT, _is_block))
    if listing is None and (counts := facts_of_lines(text)):
        return Description(facts=tuple(counts))
    described = listing or _describe_outline(payload, OUTPUT, _is_part)
    if described:
        return described
    return Description(facts=tuple(facts_of_pairs(payload.sample.head) or facts_of_words(payload.sample.head)))


def describe_source(payload: PayloadProbe) -> Description:
    """Returns records, and symbols or headings at the outer levels with their lines; or else as `describe_output`."""
    records = tell(documents_in(payload.sample.head)).facts if payload.sample.whole else []
    outlined = _describe_list(payload) or _describe_outline(payload, SOURCE, _is_block if records else _is_part)
    return _beside(records, outlined) if records or outlined else describe_output(payload)


def _beside(records: list[str], outlined: Description | None) -> Description:
    return replace(outlined or NOTHING, facts=(*records, *(outlined or NOTHING).facts))


def _is_part(entry: OutlineEntry) -> bool:
    return entry.what != "phase"


def _is_block(entry: OutlineEntry) -> bool:
    """Returns whether an entry is neither a phase nor a record, which the facts about records describe."""
    return entry.what not in {"phase", "item"}


def _describe_outline(
    payload: PayloadProbe, landmark_rules: Landmarks, counts: Callable[[OutlineEntry], bool]
) -> Description | None:
    """Returns the headings of a document, which the text itself or its name identifies, or else its landmarks."""
    source = _SOURCE if payload.sample.whole else _SOURCE // 2
    data, where = _first_lines(payload.sample, source if landmark_rules is SOURCE else _OUTLINED_BYTES)
    names = (payload.declared.title, payload.declared.url)
    headings = extract_headings(data) if reads_as_document(None, next(filter(None, names), None), data) else None
    entries = [] if headings is None else of_sections(headings.sections)
    entries = entries or list(filter(counts, landmarks(landmark_rules, names, data)))
    return _describe_entries(entries, where)


def _first_lines(sample: PayloadSample, most: int = _OUTLINED_BYTES) -> tuple[bytes, str]:
    """Returns the whole lines that are examined, and words that say how many these are if there are more.

    At most `most` bytes are examined. Exceptions are files of settings, whose parts are found faster, and complete
    manuals, which have few landmarks: they are examined as far as they are available.
    """
    head = sample.head
    if len(head) > most and (yaml_form(head) == "keys" or (sample.whole and is_manual(head[:_HEAD_BYTES]))):
        most = len(head)
    if len(head) <= most and sample.whole:
        return sample.head, ""
    data = sample.head[: sample.head.rfind(b"\n", 0, most) + 1]
    return data, " of the first {} lines".format(data.count(b"\n"))


def _describe_entries(entries: list[OutlineEntry], where: str) -> Description | None:
    """Returns facts that name entries of the outer levels; None if there are fewer than two entries."""
    if len(entries) < 2:  # noqa: PLR2004 - one entry is no outline
        return None
    outer, facts = summary(entries, where)
    titles = Counter([name for entry in entries for name in {entry.title, without_arguments(entry.title)}])
    following = [*[entry.level for entry in outer[1:]], 0]
    inner = [entry for entry, level in zip(outer, following, strict=True) if level <= entry.level]
    alone = [entry for entry in inner if titles[entry.title] == 1]
    alone.sort(key=lambda each: -size_of(each))
    return Description(facts=facts, parts=select_named_parts(alone), document=outer[0].what == "heading")


def _describe_list(payload: PayloadProbe) -> Description | None:
    """Returns commits of a Git log, documents of a YAML stream, or totals; None for any other text."""
    head = payload.sample.head[:_HEAD_BYTES]
    if is_log(head) or is_oneline(head):
        return _commits(payload.sample)
    if payload.sample.whole and (totals := totals_of(head)) is not None:
        totals.feed(payload.sample.head)
        return Description(facts=totals.facts())
    return _documents(payload.sample) if yaml_form(head) == "documents" else None


def _commits(sample: PayloadSample) -> Description:
    entries = landmarks(PROSE, (), sample.head) if sample.whole else []
    commits = [entry.title for entry in entries if entry.what == "commit"]
    fact = f"{format_count(len(commits), 'commit')}: {first_of(commits, _MAX_COMMITS)}"
    if not commits or len(entries) >= MAX_ENTRIES:
        return Description(parts=OUTLINE)
    return Description(facts=(fact,), parts=OUTLINE if len(commits) > _MAX_COMMITS else ())


def _documents(sample: PayloadSample) -> Description:
    """Returns where the documents of a YAML stream begin and, for a short stream, how many of each kind it has."""
    data, where = _first_lines(sample)
    entries = landmarks(PROSE, (), data)
    described = _describe_entries(entries, where) or NOTHING
    if where or len(entries) >= MAX_ENTRIES:
        return described
    count = f"{format_count(len(entries), 'document')}{details_of(entries)}"
    return replace(described, facts=(count, *described.facts))


_MAX_COLUMNS: Final = 200
"""Maximum columns of a table that are named. Chosen: the card's budget cuts the line earlier."""
_SEPARATORS: Final = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}


def describe_table(payload: PayloadProbe) -> Description:
    """Returns what the rows say, their number, and the first row, header or not, if all are available."""
    sample = payload.sample
    table = read_table(sample.head)
    if table is None:
        return NOTHING
    first = [cell.strip() or "?" for cell in table.rows[0]]
    rows, lines = _rows(sample.head, table) if sample.whole else ([], [])
    headless = len(rows) > 1 and begins_with_values(rows)
    below = max(0, len(rows) - 1 + headless)
    size = f"{format_count(below, 'row')}{'' if headless else ' below the first'}, " if rows else ""
    shape = f"{size}{format_count(len(first), 'column')}, {_SEPARATORS[table.delimiter]}-separated"
    names = () if headless else (f"First row: {first_of(first, _MAX_COLUMNS, separator=', ')}",)
    records = RecordFacts()
    if rows:
        begin = 0 if headless else 1
        records = tell([rows_of([""] * len(first) if headless else first, rows[begin:], lines[begin:])])
    return Description(facts=(shape, *records.facts, *names))


def _rows(data: bytes, table: Table) -> tuple[list[list[str]], list[int]]:
    """Returns the rows of a whole table, with their lines; none if quoting is broken, or other text is there."""
    text = data.decode("utf-8-sig", "replace")
    if not table.plain:
        return read_drawn_rows(text) if table.delimiter == "|" else ([], [])
    rows, lines = read_delimited(text.split("\n", table.begin)[-1], table.delimiter) or ([], [])
    return rows, [line + table.begin for line in lines]
