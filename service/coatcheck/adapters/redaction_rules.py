"""Reads the redaction rules from the file in the package, and compiles them when they are first needed."""

import re
import threading
from importlib import resources
from typing import Final

from coatcheck.core.redact.find import SecretFinder
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.rules import RuleSet, read_rules

FILE: Final = "gitleaks.toml"
VERSION: Final = "b58d3f102cf3"
"""The release or the commit of gitleaks from which the file comes."""
RELEASED: Final = "2026-07-22"
"""The date of this release or commit."""
SHA256: Final = "0ceeb4f9c567f9f80ee05e8e37eeba4646df809f69c736a64d5b8b1398eb3e4c"
"""Digest of the file, which `maintenance/update_redaction_rules.py` writes."""
_MIN_START_CHARS: Final = 4
"""Minimum characters by which the beginning of a secret is recognised."""


class Masks:
    """Creates the mask of a process when it is first needed, and keeps it."""

    def __init__(self, rules: str = "") -> None:
        """Compiles nothing yet, unless `rules` has names, which are then checked.

        `rules` has the names of rules, separated by commas: rules to enable in addition to the defaults, and rules to
        disable, whose names begin with `-`.

        Raises:
            ValueError: a rule has an unknown name.
        """
        names = [name.strip() for name in rules.split(",") if name.strip()]
        self._off = tuple(name[1:] for name in names if name.startswith("-"))
        self._extra = tuple(name for name in names if not name.startswith("-"))
        self._lock = threading.Lock()
        self._mask: Mask | None = None
        if names:
            _check_names(self.rules(), (*self._off, *self._extra))

    def rules(self) -> RuleSet:
        """Compiles the rules and returns them."""
        return read_rules(rules_text(), extra=self._extra, off=self._off)

    def __call__(self) -> Mask:
        """Returns the mask; the first call takes about 0.2 seconds of CPU time."""
        with self._lock:
            if self._mask is None:
                rules = self.rules()
                self._mask = Mask(SecretFinder(rules), _starts(rules))
            return self._mask


def rules_text() -> str:
    """Returns the text of the file with the rules."""
    return resources.files("coatcheck.core.redact").joinpath(FILE).read_text(encoding="utf-8")


def _starts(rules: RuleSet) -> tuple[str, ...]:
    """Returns the fixed beginnings of secrets, for rules whose secrets have such a beginning."""
    starts: set[str] = set()
    for rule in rules.rules:
        if rule.needs_name or rule.own:
            continue
        plain = re.sub(r"\(\?i\)|\\b|\(\?:|\(|\\(?=[.-])", "", rule.source)
        for word in rule.keywords:
            text = word.decode()
            if len(text) >= _MIN_START_CHARS and plain.lower().startswith(text):
                starts.add(text)
    return tuple(sorted(starts))


def _check_names(rules: RuleSet, names: tuple[str, ...]) -> None:
    known_names = {*rules.names, *(entry.rule for entry in rules.left_out)}
    wrong = [name for name in names if name not in known_names]
    if wrong:
        raise ValueError(f"There is no redaction rule named {', '.join(wrong)}.")
