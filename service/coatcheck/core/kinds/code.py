"""Source code and files: symbols with their lines."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan, Spot, Spots
from coatcheck.core.kinds.scan import Scan
from coatcheck.core.kinds.telling import opening, telling

_SYMBOL: Final = re.compile(
    r"^(?:\(?\d{1,6}[:|)\t ] ?)?[ \t]{0,8}(?:export |default |public |private |protected |static |abstract "
    r"|final |async |"
    r"pub(?:\([a-z]+\))? |unsafe |inline |extern |override |sealed |data |open |internal |virtual ){0,4}"
    r"(?:(?:def|class|func|fn|interface|trait|struct|enum|impl|module|namespace|function\*?|type|object"
    r"|protocol|record|sub|macro_rules!)"
    r"[ \t]+(?:\([^)]{0,80}\) )?([A-Za-z_$][\w$.:<>]{0,79}))"
    r"|^(?:const|let|var) ([A-Za-z_$][\w$]{0,79}) ?= ?(?:async )?(?:\(|function)"
    r"|^(#{1,3}) (\S.{0,99})$"
)
_TELLING: Final = Scan(
    r"^(?:\(?\d{1,6}[:|)\t ] ?)?[ \t]{0,8}(?:(?:export|default|public|private|protected|static|abstract|final|async"
    r"|pub(?:\([a-z]+\))?|unsafe|inline|extern|override|sealed|data|open|internal|virtual) ){0,4}"
    r"(?:def|class|func|fn|interface|trait|struct|enum|impl|module|namespace|function\*?|type|object|protocol|record"
    r"|sub|macro_rules!)[ \t]"
    r"|^(?:const|let|var) [A-Za-z_$][\w$]{0,79} ?=|^#{1,3} \S"
)
"""What every line that _SYMBOL matches begins with: the others never meet that pattern."""
_LINES: Final = 5_000
"""Lines that begin like a definition and are looked at."""
_SYMBOLS: Final = 150
_BLOCK: Final = 160
"""Bytes of lines that are shown together."""
_FIRST: Final = 6
"""Pieces that come before the beginning: a licence or imports are not what a file is about."""


class CodeCutter:
    """Code, configuration, documents with headings."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Names of definitions and headings with the line each stands on, as far as the head goes."""
        del said
        found: list[str] = []
        number, counted = 1, 0
        for start, end, *_ in islice(_TELLING.lines(sample.head), _LINES):
            if end - start > 400:  # noqa: PLR2004 - definitions are short
                continue
            match = _SYMBOL.match(sample.head[start:end].decode("utf-8", "replace").rstrip("\r\n"))
            if match:
                number += sample.head.count(b"\n", counted, start)
                counted = start
                name = match.group(1) or match.group(2) or f"{match.group(4)}"
                found.append(f"{name.strip().rstrip(':')} {number}")
                if len(found) == _SYMBOLS:
                    break
        return Description(shape=(f"Outline (with lines): {'; '.join(found)}",) if len(found) > 1 else ())

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """The lines that say most different things; soon among them how it begins."""
        del facts
        return Plan(shape=0.2, spots=1.0, tail=0.15, hints=0.0, outline=True, wanted=Spots(_wanted(sample.head)))


def _wanted(head: bytes) -> Iterator[Spot]:
    lines = telling(head, block=_BLOCK)
    yield from islice(lines, _FIRST)
    yield opening(head)
    yield from lines
