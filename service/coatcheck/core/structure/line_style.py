"""The style of a text's lines: printed by a program, written as code, or told as prose.

Only how a line *begins* or *ends* is significant: a word in the middle is what the line is about.
"""

from typing import Final, Literal

from coatcheck.core.text.scan import BlockPattern

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
_TOLD: Final = BlockPattern(
    r"^[ \t\"'(]*(?:[\w,;:'\"()/.&`\x{80}-\x{10ffff}-]+  ?){5,}[\w,;:'\"()/.&`?!<>@\x{80}-\x{10ffff}-]+[ \t\r]*$"
    r"|^[A-Z].*(?: [a-z]+,?){4}.*[.!?:]$"  # a sentence
)
_FOREIGN: Final = bytes(range(0x80, 0x100))
_OUTPUT: Final = 0.3
_PROSE: Final = 0.3
_CODE: Final = 0.5
"""Shares of lines: low, because most lines of most texts say nothing about their style."""


def style_of(block: bytes, count: int) -> Literal["output", "prose", "code"]:
    """Returns the style of most of the `count` lines of `block`, none of them blank.

    `output` if nothing indicates any.
    """
    prose_lines = _TOLD.count(block)
    foreign = (len(block) - len(block.translate(None, _FOREIGN))) * count // len(block)
    prose_lines = max(prose_lines, 2 * foreign)
    coded = _CODED.count(block) if prose_lines < count else 0
    code = coded + (block.count(b"\n    ") + block.count(b"\n\t")) / 2
    printed = _PRINTED.count(block) if code < 2 * count else 0
    if printed >= _OUTPUT * count and 2 * printed >= max(code, prose_lines):
        return "output"
    if prose_lines >= _PROSE * count and prose_lines > 1.3 * coded:
        return "prose"
    return "code" if code >= _CODE * count else "output"
