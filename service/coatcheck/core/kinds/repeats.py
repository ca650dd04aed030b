"""Lines that an output keeps repeating, as templates with counts: said once instead of shown a hundred times.

Two lines are alike when they differ in numbers, moments and long hexadecimal words only.
"""

import re
from collections import Counter
from typing import Final

from coatcheck.core.artifact import Sample
from coatcheck.core.kinds.cutter import plural
from coatcheck.core.kinds.failure import states_failure

REPEATED: Final = " like: "
"""In every line that `repeats` answers."""
_LINES: Final = 1_200
"""Lines at either end that are looked at."""
_WIDTH: Final = 160
"""Bytes of a line that are compared and shown."""
_LEAST: Final = 6
_SHARE: Final = 0.06
"""A template is worth naming if at least six lines, and this share of all that were looked at, are like it."""
_FAILED: Final = 3
"""The same for lines that state a failure."""
_NAMED: Final = 4
_SAID: Final = 12
"""Letters that a template must have to say something."""

_DIGITS: Final = bytes.maketrans(b"0123456789", b"##########")
_COLOUR: Final = re.compile(rb"\x1b\[[0-9;]*m")
_VARYING: Final = re.compile(rb"#(?:[#a-f]|[.:,/T_-]+#| #(?=#?:))*")
"""A number, a moment, what goes on of a hexadecimal word: from its first digit."""


def repeats(sample: Sample) -> tuple[str, ...]:
    """`412 of 2400 lines like: INFO downloaded #`: failures first, then the most frequent.

    Nothing where hardly a line repeats.
    """
    rows = sample.head.removesuffix(b"\n").split(b"\n", _LINES)
    part = len(rows) > _LINES or not sample.whole
    if len(rows) > _LINES:
        after = sample.tail or rows[-1]
        rows[-1:] = after.removesuffix(b"\n")[-_LINES * _WIDTH :].rsplit(b"\n", _LINES)[-_LINES:]
    text = b"\n".join([row[:_WIDTH] for row in rows])
    text = _COLOUR.sub(b"", text) if b"\x1b" in text else text
    counts = Counter(_VARYING.sub(b"#", text.translate(_DIGITS)).split(b"\n"))
    stated = {
        template
        for template, count in counts.items()
        if count >= _FAILED and states_failure(template.replace(b"#", b"7"))
    }
    least = max(_LEAST, int(_SHARE * len(rows)))
    often = [item for item in counts.items() if item[1] >= least or item[0] in stated]
    often.sort(key=lambda item: (item[0] not in stated, -item[1]))
    telling = [item for item in often if len(item[0].strip(b" #-=*_.\t\r")) >= _SAID][:_NAMED]
    whole = f"{len(rows)} sampled lines" if part else plural(len(rows), "line")
    return tuple(
        f"{count} of {whole}{REPEATED}{' '.join(template.decode('utf-8', 'replace').split())}"
        for template, count in telling
    )
