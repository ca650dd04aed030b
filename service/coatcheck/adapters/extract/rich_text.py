"""Extracts the text of documents in Rich Text Format (RTF 1.9.1). Runs in a worker process, in one pass.

Pictures and other data are left out. Headers, footers and footnotes are marked, and are in the text where the file has
them. Hidden text, and text that was deleted while changes were tracked, is left out.
"""

import codecs
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from msgspec import Struct, structs

from coatcheck.adapters.extract.wire import ViewWriter
from coatcheck.core.extract.boilerplate import words
from coatcheck.core.views.view import ExtractedText

_EXTRACTOR: Final = "rtf 1"
_TOKEN: Final = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z'])|([{}])|([^\\{}\r\n]{1,65536})|[\r\n]|\\"
)
_SIGNS: Final[dict[str, str]] = dict(
    re.findall(
        r"(\w+)=(.)",
        "tab=\t line=\n emdash=\u2014 endash=\u2013 lquote=\u2018 rquote=\u2019 ldblquote=\u201c rdblquote=\u201d "
        "bullet=\u2022 emspace=\u2003 enspace=\u2002",
        re.DOTALL,
    )
)
_SYMBOLS: Final = {"~": "\u00a0", "_": "-", "\\": "\\", "{": "{", "}": "}"}
_SILENT_GROUPS: Final = words(
    "fonttbl colortbl stylesheet info pict object themedata colorschememapping datastore latentstyles listtable "
    "listoverridetable rsidtbl generator fldinst xmlnstbl bkmkstart bkmkend filetbl revtbl mmathPr pgptbl nonshppict "
    "listtext pntext pnseclvl template userprops xmlopen atnid atnref objdata blipuid sp"
)
"""First words of groups that contain no text, or only text that other groups repeat."""
_OPTIONAL: Final = frozenset({"shpinst", "ud"})
"""First words of groups that are marked as optional, and whose text is read nevertheless."""
_ON: Final = {b"v": 1, b"deleted": 1, b"uc": 1}
"""Control words with the number that they mean if no number follows them."""
_ASIDE: Final = {
    "footnote": "note",
    "annotation": "comment",
    "shptxt": "text box",
    **{f"{name}{page}": name for name in ("header", "footer") for page in ("", "l", "r", "f")},
}
"""Control words that begin an aside, a group outside the running text, with the name of the aside."""
_PAGES: Final = (
    "128=932 129=949 134=936 136=950 161=1253 162=1254 163=1258 177=1255 178=1256 186=1257 204=1251 222=874 238=1250"
)
_CHARSETS: Final = {int(charset): f"cp{page}" for charset, page in re.findall(r"(\d+)=(\d+)", _PAGES)}
"""Code pages by the number of a font's character set."""
_CHECKED: Final = 4096
"""Tokens that are read between two checks of the time."""
_MAX_LEVEL: Final = 9
"""Deepest level of headings in Word."""
_MAX_GROUPS: Final = 10_000
"""Maximum depth of nested groups; reading ends at a deeper one."""


class _Group(Struct):
    """The state that holds until the end of a group; a group inside it begins with a copy."""

    is_skipped: bool = False
    """Whether the group's characters are left out."""
    is_hidden: bool = False
    """Whether characters are left out because they are hidden or deleted. A control word in the group may end this."""
    fallbacks: int = 1
    """Number of characters that replace each Unicode character for readers without Unicode, and follow it."""
    codec: str = "cp1252"
    """The encoding of the group's bytes: the encoding of the font, or of the document."""
    is_optional: bool = False
    """Whether the group is marked as optional: it is skipped unless its first word is in _ASIDE or _OPTIONAL."""
    is_fonts: bool = False
    """Whether the group is in the table of fonts, which gives their encodings."""
    is_apart: bool = False
    """Whether the group is in an aside. The ends of its paragraphs do not end the paragraph around the aside."""
    aside: str = ""
    """The name of the aside, if the group itself is one; otherwise empty."""


@final
class _Reader:
    """Reads one document."""

    def __init__(self, writer: ViewWriter) -> None:
        self._writer = writer
        self._group = _Group()
        self._groups: list[_Group] = []
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._skip = 0
        """Number of replacement characters that are still to be skipped after a Unicode character."""
        self._bytes = bytearray()
        self._high = ""
        self._line: list[str] = []
        self._cells: list[str] = []
        self._level = 0
        self._was_row = False
        self._in_table = False
        self._words: dict[str, Callable[[str, int], None]] = {
            "u": self._add_unit,
            "uc": lambda _, value: setattr(self._group, "fallbacks", max(0, value)),
            "ansicpg": self._set_codec,
            "f": self._set_codec,
            "outlinelevel": lambda _, value: setattr(self, "_level", value + 1),
            "pard": self._begin_paragraph,
            "intbl": lambda _, __: setattr(self, "_in_table", True),
            **dict.fromkeys(_ASIDE, self._begin_aside),
            **dict.fromkeys(("cell", "nestcell"), self._end_cell),
            **dict.fromkeys(("row", "nestrow"), self._end_row),
            **dict.fromkeys(("par", "sect", "page"), self._end_paragraph),
        }

    def read(self, data: bytes) -> None:
        """Reads a document to its end. If the time is used up or groups are nested too deep, the view is partial."""
        at = number = 0
        while (match := _TOKEN.match(data, at)) is not None:
            at, number = match.end(), number + 1
            word, value, code, symbol, brace, text = match.groups()
            if (number % _CHECKED == 0 and self._writer.late) or len(self._groups) > _MAX_GROUPS:
                break
            if code is not None or text is not None:
                self._add_bytes(text if code is None else bytes.fromhex(code.decode()))
            elif word is not None:
                at += self._handle_word(word.decode(), int(value or _ON.get(word, 0)))
            elif brace is not None:
                self._handle_brace(brace)
            elif symbol is not None:
                self._flush()
                if symbol == b"*" and not self._group.is_skipped:
                    self._group.is_skipped = self._group.is_optional = True
                self._add(_SYMBOLS.get(symbol.decode("latin-1"), ""))
        self._writer.partial = self._writer.partial or at != len(data)
        self._group, self._in_table = _Group(codec=self._group.codec), False
        self._end_paragraph()

    def _handle_brace(self, brace: bytes) -> None:
        self._flush()
        if brace == b"{":
            self._groups.append(self._group)
            self._group = structs.replace(self._group, aside="", is_optional=False)
        elif self._groups:
            if self._group.aside:
                self._line.append("] ")
            self._group = self._groups.pop()

    def _handle_word(self, word: str, value: int) -> int:
        """Carries out a control word; returns the number of bytes after it that are binary data."""
        group = self._group
        if word != "u":
            self._flush()
        if group.is_optional and (word in _ASIDE or word in _OPTIONAL):
            group.is_skipped = group.is_optional = False
        if word in _SILENT_GROUPS:
            group.is_skipped, group.is_fonts = True, word == "fonttbl"
        elif word in {"v", "deleted"} and (group.is_hidden or not group.is_skipped):
            group.is_skipped = group.is_hidden = value != 0
        elif group.is_fonts:
            self._define_font(word, value)
        elif not group.is_skipped:
            self._words.get(word, self._unknown)(word, value)
        return max(0, value) if word == "bin" else 0

    def _unknown(self, word: str, _: int) -> None:
        self._add(_SIGNS.get(word, ""))

    def _set_codec(self, word: str, value: int) -> None:
        """Sets the group's encoding to the encoding of the document or of a font; ignores an unknown code page."""
        base = self._groups[0].codec if self._groups else self._group.codec
        codec = f"cp{value}" if word == "ansicpg" else self._fonts.get(value, base)
        with suppress(LookupError):
            self._group.codec = codecs.lookup(codec).name

    def _begin_aside(self, word: str, _: int) -> None:
        self._group.aside, self._group.is_apart = _ASIDE[word], True
        self._add(f" [{_ASIDE[word]}: ")

    def _begin_paragraph(self, _word: str, _value: int) -> None:
        self._level, self._in_table = 0, False

    def _end_cell(self, _word: str, _value: int) -> None:
        self._cells.append(self._take_line().replace("\n", " "))

    def _define_font(self, word: str, value: int) -> None:
        """Records the encoding of a font from the table of fonts."""
        if word == "f":
            self._font = value
        elif word == "fcharset" and value in _CHARSETS:
            self._fonts[self._font] = _CHARSETS[value]

    def _add_bytes(self, data: bytes) -> None:
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        if not self._group.is_skipped:
            self._bytes += data[skipped:]

    def _add_unit(self, _: str, value: int) -> None:
        """Adds a UTF-16 code unit, which may be given as a negative number. Two units may form one character."""
        unit = value % 0x10000
        waiting, self._skip = bytes(self._bytes), self._group.fallbacks
        if waiting:
            self._flush()
            self._skip = self._group.fallbacks
        self._high += chr(unit)
        if not 0xD800 <= unit < 0xDC00:  # noqa: PLR2004 - the range of the first half of a surrogate pair
            text = self._high.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            self._high = ""
            self._add(text)

    def _flush(self) -> None:
        """Decodes all gathered bytes at once, because several bytes may form one character."""
        self._skip = 0
        if self._bytes:
            self._add(self._bytes.decode(self._group.codec, "replace"))
            self._bytes.clear()

    def _add(self, text: str) -> None:
        if not self._group.is_skipped and text:
            self._line.append(text)

    def _take_line(self) -> str:
        text = "\n".join(filter(None, (" ".join(line.split()) for line in "".join(self._line).split("\n"))))
        self._line.clear()
        return text

    def _end_paragraph(self, _word: str = "", _value: int = 0) -> None:
        self._flush()
        if self._group.is_apart or self._in_table:
            self._add(" ")
            return
        text = self._take_line()
        if text and 0 < self._level <= _MAX_LEVEL:
            self._writer.heading(text, self._level)
        elif text:
            self._writer.put("")
            self._writer.put(text)
        self._was_row = self._was_row and not text

    def _end_row(self, _word: str, _value: int) -> None:
        if any(self._cells) and (self._was_row or self._writer.put("")):
            self._writer.put(f"| {' | '.join(self._cells)} |")
            self._was_row = True
        self._cells.clear()
        self._in_table = False


def extract_rich_text(payload: bytes, until: float) -> ExtractedText | None:
    """Returns the text view of a document in RTF, even if it has no text; None if there is no time for even a line.

    Args:
        payload: the whole document.
        until: CPU time of this process, in seconds, at which to stop.
    """
    writer = ViewWriter(until)
    writer.put("Rich text")
    _Reader(writer).read(payload)
    return writer.finish(_EXTRACTOR)
