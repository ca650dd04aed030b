"""Source code and files: symbols with their lines."""

import re
from typing import Final

from coatcheck.core.artifact import Facts, Said, Sample
from coatcheck.core.kinds.cutter import Description, Plan

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
_LINES: Final = 20_000
_SYMBOLS: Final = 150


class CodeCutter:
    """Code, configuration, documents with headings."""

    def describe(self, sample: Sample, said: Said) -> Description:
        """Names of definitions and headings with the line each stands on, as far as the head goes."""
        del said
        found: list[str] = []
        for number, line in enumerate(sample.head.split(b"\n", _LINES)[:_LINES], 1):
            if len(line) > 400:  # noqa: PLR2004 - definitions are short
                continue
            match = _SYMBOL.match(line.decode("utf-8", "replace").rstrip("\r"))
            if match:
                name = match.group(1) or match.group(2) or f"{match.group(4)}"
                found.append(f"{name.strip()} {number}")
                if len(found) == _SYMBOLS:
                    break
        return Description(shape=(f"Outline (with lines): {'; '.join(found)}",) if len(found) > 1 else ())

    def plan(self, sample: Sample, facts: Facts) -> Plan:
        """The beginning says what it is."""
        del sample, facts
        return Plan(shape=0.2, tail=0.15, hints=0.0, outline=True)
