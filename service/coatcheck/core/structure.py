"""Reads the structure of a text as far as it is valid: JSON, delimited tables, the style of lines.

A well-formed JSON document is read as a whole, any other JSON up to the end of its longest readable beginning. NaN,
trailing data or 100,000 open brackets end that beginning. Reading never raises an error, and never recurses into a
document's depth. Of a table, the delimiter and the first rows are read. The style of lines (printed, code, prose) is
determined by how they *begin* or *end*: words in the middle are the content of a line, not its style.
"""

import csv
import json
import re
from itertools import islice
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs
from msgspec.structs import replace

from coatcheck.core.text.json_skeleton import find_complete_part
from coatcheck.core.text.scan import BlockPattern
from coatcheck_client.contract.json_values import unique_members

_BOM: Final = b"\xef\xbb\xbf"
START_BYTES: Final = 64 * 1024
"""Bytes at the beginning that are read of a document that cannot be decoded as a whole."""
_MAX_LINES: Final = 1_000
"""Maximum lines of NDJSON that are read. Further lines mostly have the same members."""
_OTHERS: Final = 10
"""In NDJSON: minimum lines that are JSON documents for each line that is not."""
JSON_FAULTS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""Errors of the decoder for text that is no JSON, or is nested too deeply for the stack."""
_check: Final = msgspec.json.Decoder(msgspec.Raw).decode
"""Parses JSON without creating values."""
_BEGINS: Final = re.compile(rb"^[ \t]*[\[{]", re.MULTILINE)
_AROUND: Final = 16 * 1024
"""Maximum bytes in front of a JSON document that is inside a text."""
_TRIALS: Final = 8
"""Maximum lines that are tried as the beginning of such a document."""
_MIN_SHARE: Final = 0.5
"""Minimum share of the text's bytes that such a document has."""
_SMALL: Final = 64
"""Minimum bytes of such a document: a smaller one is worth no more than the text around it."""
_FAULT_AT: Final = re.compile(r"\(byte (\d+)\)")


_decode_unique: Final = json.JSONDecoder(
    object_pairs_hook=unique_members, parse_float=str, parse_int=str, strict=False
).decode


def has_unique_names(text: bytes) -> bool:
    """Returns whether a text is a JSON document in which no object has two members of the same name."""
    try:
        _decode_unique(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True


class JsonReading(Struct, frozen=True):
    """The result of reading a JSON text."""

    value: object
    """The decoded document; for NDJSON, the list of its documents."""
    complete: bool
    """Whether the value is an entire single document."""
    lines: int = 0
    """For NDJSON: number of documents that were read; 0 for a single document."""
    all_lines: bool = False
    """For NDJSON: whether all documents were read."""
    size: int = 0
    """For an incomplete document: number of bytes before its end, or before it becomes invalid; otherwise 0."""

    @property
    def all_of_it(self) -> bool:
        """Whether the value contains everything in the payload."""
        return self.complete or self.all_lines


def read_json(data: bytes, *, whole: bool) -> JsonReading | None:
    """Returns the content of a JSON text; None if it does not begin like JSON, or none of it can be read.

    Returns None also if the text mixes JSON documents with other lines, as a log may do. `whole`: `data` is the entire
    document, not only its beginning.
    """
    text = data.removeprefix(_BOM).lstrip(b" \t\r\n")
    if text[:1] not in {b"{", b"["}:
        return None
    if whole:
        try:
            return JsonReading(msgspec.json.decode(text), complete=True)
        except JSON_FAULTS:
            pass
    # Two lines show that each line is a document by itself, so they are read whatever their lengths are.
    second = text.find(b"\n", text.find(b"\n") + 1)
    most = max(4 * START_BYTES, len(text) if second < 0 else second)
    reading, mixed = _read_lines(text[:most], is_cut=not whole)
    if reading is not None and whole and len(text) <= most:
        all_lines = reading.lines == sum([bool(line.strip()) for line in text.split(b"\n")])
        reading = structs.replace(reading, all_lines=all_lines)
    return None if mixed else reading or _read_start(text[:START_BYTES])


def find_document(text: bytes) -> tuple[int, int] | None:
    """Returns the offsets of a JSON document inside a text that contains little else: its first byte, and its end.

    None if the text is nothing but a document, or contains none. Around the document may be a sentence, a warning or a
    Markdown fence. The document may have any well-formed content.
    """
    end = max(text.rfind(b"}"), text.rfind(b"]")) + 1
    for match in islice(_BEGINS.finditer(text, 0, _AROUND), _TRIALS):
        start = match.end() - 1
        if end - start < len(text) * _MIN_SHARE or end - start < _SMALL:
            return None
        if start == len(text) - len(text.lstrip()) and end == len(text.rstrip()):
            continue
        try:
            _check(text[start:end])
        except JSON_FAULTS:
            continue
        return start, end
    return None


def _read_lines(text: bytes, *, is_cut: bool) -> tuple[JsonReading | None, bool]:
    """Returns the documents of NDJSON with at least two lines, and whether the text mixes JSON with other lines.

    A log may begin with JSON. A text is a mixture if fewer than _OTHERS lines are documents for each line that is not.
    If `is_cut`, the second line may be cut off: then it only has to begin like the first one.
    """
    values: list[object] = []
    right = wrong = 0
    if b"\n" not in text:
        return None, False
    lines = [line for line in text.split(b"\n", _MAX_LINES)[:_MAX_LINES] if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            value = msgspec.json.decode(line)
        except JSON_FAULTS:
            if not right:
                return None, False
            wrong += number < len(lines)  # the last line may be cut off
        else:
            right += 1
            if not wrong:
                values.append(value)
    if wrong * _OTHERS > right:
        return None, True
    is_second_cut = is_cut and len(lines) == 2 and lines[0][:1] == lines[1].lstrip()[:1]  # noqa: PLR2004
    return (JsonReading(values, complete=False, lines=len(values)) if right > 1 or is_second_cut else None), False


def _read_start(text: bytes) -> JsonReading | None:
    """Returns the value of the longest prefix that ends with a complete member, with open containers closed.

    None if the prefix is a complete document and longer text follows: then the text only begins with JSON.
    """
    valid = text
    try:
        _check(text)
    except JSON_FAULTS as fault:
        at = _FAULT_AT.search(str(fault))
        valid = text[: int(at[1]) - 1] if at else text
    end, closing = find_complete_part(valid) or (len(valid), b"")
    below = text[end:].lstrip()
    if not closing and len(below) > end and below[:1] not in {b"{", b"["}:
        return None
    try:
        value = msgspec.json.decode(valid[:end] + closing)
    except UnicodeDecodeError:
        return _read_start(valid.decode("utf-8", "replace").encode())
    except JSON_FAULTS:
        return None
    return JsonReading(value, complete=False, size=end)


_HEAD_BYTES: Final = 16 * 1024
"""Bytes at the beginning of a text in which a table is recognised."""
_TABLE_LINES: Final = 60
"""Maximum lines of that beginning that are examined."""
_MAX_ROWS: Final = 30
"""Maximum rows that are read from these lines."""
_BARS: Final = frozenset("+│┃║┌┏╔╭")
_AS_BAR: Final = str.maketrans("│┃║", "|||")
_RULE: Final = re.compile(r"[-+|:= ─━═┌-╿]*[-─━═]{2}[-+|:= ─━═┌-╿]*")
_RULES: Final = 3
"""Maximum rules (lines of dashes) of a drawn table without rules between its rows. With more, some may be data: rows of
dashes."""
_COUNT: Final = re.compile(r"\(?(\d+) rows?(?: in set\b.*|\)|$)")
"""Matches the number of rows, as databases print it below a table."""
_EVEN_SHARE: Final = 0.9
"""Minimum share of rows with as many cells as the header. Also the minimum share of short cells in a table of two
columns."""
_DRAWN_SHARE: Final = 0.7
"""Minimum share of rows with as many cells as the header in a drawn table, which may have a title and a count, too."""
_NUMBER_SHARE: Final = 0.8
"""Share of short cells with digits and no blanks above which rows are certainly a table."""
_NUMBER: Final = re.compile(r"\s*[-+]?\d[\d.,]*\s*")
_DIGIT: Final = re.compile(r"\d")
_WHOLE: Final = 3
"""Minimum rows that remain when the last row is left out, whose quoted cell may be cut off."""
_SHORT: Final = 40
"""Maximum characters of a cell that is a value rather than a sentence."""
_WORDS: Final = 6
"""Maximum words of a column's name; a clause of a sentence has more."""


class Table(Struct, frozen=True):
    """The beginning of a table."""

    delimiter: str
    """The delimiter between cells: `,`, tab, `;` or `|`."""
    rows: list[list[str]]
    """The header, and the rows below it that were read."""
    plain: bool
    """Whether every line below `begin` belongs to a row, so that there are no rules and no comments."""
    begin: int = 0
    """Number of comment lines above the header."""


def read_table(head: bytes) -> Table | None:
    """Returns the table with which a text begins: at least three rows with the same number of cells, two or more.

    None if the text does not begin with a table.
    """
    first = head[:_HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").split(b"\n", _TABLE_LINES)[:_TABLE_LINES]
    if len(first) < _TABLE_LINES:
        first.pop()  # the last piece is empty, or may be a line that is cut off
    every = b"\n".join(first).decode("utf-8", "replace").splitlines()
    filled = [line for line in every if line.strip()]
    lines = [line for line in filled if line[0] != "#"]
    comments = next((at for at, line in enumerate(first) if line[:1] != b"#"), 0)
    if any(line.lstrip()[:1] in _BARS or "|" in line for line in lines[:2]):
        bar_lines = [line.translate(_AS_BAR).strip().strip("|") for line in lines if not _RULE.fullmatch(line.strip())]
        if 1 < len(bar_lines) < len(lines) and "|" in bar_lines[0]:
            rows = [[cell.strip() for cell in line.split("|")] for line in bar_lines[:_MAX_ROWS]]
            return Table("|", rows, plain=False) if _even(rows) >= _DRAWN_SHARE else None
    table = _widest(lines[:_MAX_ROWS], plain=len(lines) + comments == len(filled))
    if table is None or not comments:
        return table
    header = first[comments - 1].decode("utf-8", "replace").strip("# \r").split(table.delimiter)
    columns = zip(*[row for row in table.rows if len(row) == len(header)], strict=True)
    if len(header) == len(table.rows[0]) and any(all(map(_NUMBER.fullmatch, cells)) for cells in columns):
        return replace(table, rows=[header, *table.rows], begin=comments - 1)
    return replace(table, begin=comments)


def read_drawn_rows(text: str) -> tuple[list[list[str]], list[int]]:
    """Returns the rows of a drawn table that makes up a whole text, the header first, and the numbers of their lines.

    Both lists are empty if any line is neither a row nor a rule. Only the last line may state the number of rows
    instead, and that number must be right.
    """
    numbered = [(line, at) for at, line in enumerate(text.translate(_AS_BAR).split("\n"), 1) if line.strip()]
    count = _COUNT.match(numbered[-1][0].strip()) if numbered else None
    every = numbered if count is None else numbered[:-1]
    lines = [each for each in every if not _RULE.fullmatch(each[0].strip())]
    rules, rows = len(every) - len(lines), [line for line, _ in lines]
    if all(line.strip()[:1] == "|" == line.strip()[-1:] for line in rows):
        rows = [line.strip()[1:-1] for line in rows]
    cells = [[cell.strip() for cell in line.split("|")] for line in rows]
    even = cells and _even(cells) == 1 and (rules <= _RULES or rules >= len(rows))
    if not even or (count is not None and int(count[1]) != len(cells) - 1):
        return [], []
    return cells, [number for _, number in lines]


def _even(rows: list[list[str]]) -> float:
    width = len(rows[0])
    return sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0


def _widest(lines: list[str], *, plain: bool) -> Table | None:
    best: Table | None = None
    for delimiter in ",\t;|" if len(lines) > 2 else "":  # noqa: PLR2004 - a header and two rows
        least = lines[0].count(delimiter)
        quoted = any('"' in line for line in lines)
        alike = sum(line.count(delimiter) >= least for line in lines)
        if not least or (not quoted and alike < _EVEN_SHARE * len(lines)):
            continue
        try:
            rows = list(csv.reader([f"{line}\n" for line in lines], delimiter=delimiter))
            rows = rows[:-1] if quoted and len(rows) > _WHOLE else rows  # its last cell may be cut off
        except csv.Error:
            continue
        is_wider = best is None or len(rows[0]) > len(best.rows[0])
        if is_wider and _even(rows) >= _EVEN_SHARE and _is_table(rows, delimiter):
            best = Table(delimiter, rows, plain)
    return best


def _is_table(rows: list[list[str]], delimiter: str) -> bool:
    """Returns whether the delimiters separate values, and not clauses, arguments, or the two halves of a line."""
    header, cells = rows[0], [cell.strip() for row in rows[1:] for cell in row]
    if any(cell.count("(") != cell.count(")") or cell.rstrip()[-1:] in set("{[=") for cell in header):
        return False
    values = sum(len(cell) <= _SHORT and " " not in cell and _DIGIT.search(cell) is not None for cell in cells)
    if values > _NUMBER_SHARE * len(cells):
        return True
    spaced = sum(cell[:1] == " " or (delimiter == "|" and not cell) for cell in header[1:])  # `a || b` is a command
    if delimiter != "\t" and 2 * spaced >= len(header):
        return False
    if len(header) > 2:  # noqa: PLR2004
        return all(len(cell.split()) <= _WORDS for cell in header)
    has_names = all(cell.strip() and cell[0] != " " and _DIGIT.search(cell) is None for cell in header)
    return has_names and sum(len(cell) <= _SHORT for cell in cells) >= _EVEN_SHARE * len(cells)


_PRINTED: Final = BlockPattern(
    r"^(?:[\w./+-]+(?::\d+)+(?:[: -]|$)|[\w./+-]+\(\d+\): "  # a place in a file
    r"|(?:[\w./+-]+(?:\[\d+\])?: )?(?i:error|warning|note|fatal|hint)\b[^ ]{0,12}:"
    r"|\s*(?:Traceback|File \"|at .*\()|\w*(?:Error|Exception)\b|\s*\d* +\| +[~^]|\s+\^[~^]*$"
    r"|[=_-]{3,} .* [=_-]{3,}$|[A-Z][A-Z0-9_]{2,}=|[│|` ]*[├└`+|]--? ?|[│ ]*[├└]|  +[+~-] \w|#\d+ "
    r"|[-dlcbps][-rwxsStT]{9}|(?:commit )?[0-9a-f]{7,64}\b|(?:Author|Date|Merge): |(?:usage|options): ?"
    r"| +--?[\w-]+(?:[ ,=]|$)|\w\S* -{1,2}\w"
    r"|[$+] \S|\S+@\S+[$#] |[MADRCU?! ]{2} \S+$|[./][\w./@+-]+$|\t\w[\w ]*: |\d+ \w+|\w+ \[?\d+/\d+|[A-Z]+\d+ "
    r"|(?:PASS|FAIL|ok|not ok)\b|\w+(?:ing|ed) \S+$|(?:\s*\d+){3}|.*\S {2,}\S.* {2,}\S"
    r"|.*(?:\.\.\. ?\w+|\b(?:ok|OK|PASSED|FAILED|SKIPPED|ERROR|DONE|PASS|FAIL)"
    r"|\b\d+(?:\.\d+)? ?(?:m?s|[kMG]i?B|%)\)?)$)"
)
_CODED: Final = BlockPattern(
    r"^[ \t]*(?:(?:def|class|import|from|func|fn|pub|const|let|var|val|public|private|protected|static|extern|typedef"
    r"|struct|enum|namespace|export|interface|module|package|using|use|local|my|type|return|end|set|(?i:subroutine"
    r"|integer|real))\b.*[\w)\]}:;({,\"'>]$|(?:if|for|while|switch|elif|case|else|try|except|catch|do|then|fi|done)\b"
    r".*(?:[({:;]|$)|[{}\])]+[;,)]*[ \t\r]*$|//|/\*|\*/|\* |\*$|@\w+|\"\"\"|'''|<[?!/]?\w[\w:.-]*(?:[ />]|$)|<!--|#"
    r"|```|[=~^-]{4,}[ \t\r]*$|\.\. [\w_:|-]|:[\w-]+: ?|- \w|\*+ ?\w|\d+\. |;{1,3} |!|--|%\w|\||\(\w"
    r"|\[[\w. :\"'@/-]{1,80}\]{1,2}[ \t\r]*$|[\w.\"'/$-]+ *[:+?]?= ?(?:\S|$)|msg(?:id|str) "  # settings
    r"|[\w.\"'/-]+: ?(?:[|>&*!\[{\"'\d-]|$|\S+$))"
    r"|(?:[;{}\\]|\)[ \t]*(?:->.*|:|\{|,)|=>|&&|\|\||[\w\])\"'] ?[=<>+(\[]|,)[ \t\r]*$"
)
_SENTENCES: Final = BlockPattern(
    r"^[ \t\"'(]*(?:[\w,;:'\"()/.&`\x{80}-\x{10ffff}-]+  ?){5,}[\w,;:'\"()/.&`?!<>@\x{80}-\x{10ffff}-]+[ \t\r]*$"
    r"|^[A-Z].*(?: [a-z]+,?){4}.*[.!?:]$"  # a sentence
)
_FOREIGN: Final = bytes(range(0x80, 0x100))
_OUTPUT_SHARE: Final = 0.3
"""A text may be output if at least this share of its lines look printed. The share is low, because most lines of most
texts say nothing about their style."""
_PROSE_SHARE: Final = 0.3
"""A text may be prose if at least this share of its lines are sentences."""
_CODE_SHARE: Final = 0.5
"""A text may be code if at least this share of its lines look like code."""


def style_of(block: bytes, count: int) -> Literal["output", "prose", "code"]:
    """Returns the prevailing style of the `count` lines of `block`, none of which is blank.

    The style is `output` if nothing indicates another one.
    """
    prose_lines = _SENTENCES.count(block)
    foreign = (len(block) - len(block.translate(None, _FOREIGN))) * count // len(block)
    prose_lines = max(prose_lines, 2 * foreign)
    coded = _CODED.count(block) if prose_lines < count else 0
    code = coded + (block.count(b"\n    ") + block.count(b"\n\t")) / 2
    printed = _PRINTED.count(block) if code < 2 * count else 0
    if printed >= _OUTPUT_SHARE * count and 2 * printed >= max(code, prose_lines):
        return "output"
    if prose_lines >= _PROSE_SHARE * count and prose_lines > 1.3 * coded:
        return "prose"
    return "code" if code >= _CODE_SHARE * count else "output"
