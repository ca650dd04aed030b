"""Which rules may match a piece of text: those of which a word is in it, found in one pass."""

import re
from typing import final

from coatcheck.core.redact.engine import Expression
from coatcheck.core.redact.rules import RedactionRule


@final
class RuleWords:
    """The words of some rules."""

    def __init__(self, rules: list[RedactionRule]) -> None:
        self._rules = rules
        self._always = tuple(rule for rule in rules if not rule.keywords)
        words = sorted({word for rule in rules for word in rule.keywords}, key=lambda word: (-len(word), word))
        # What is found at a place is its longest word, which speaks for those inside it as well.
        self._by_word = {
            word: tuple(rule for rule in rules if any(inner in word for inner in rule.keywords)) for word in words
        }
        source = "|".join(re.escape(word.decode("latin-1")) for word in words)
        self._expression = Expression(f"(?i){source}", groups=False) if words else None

    def rules(self, data: bytes) -> list[RedactionRule]:
        """Those that may match in a short text, in order."""
        if self._expression is None:
            return list(self._always)
        found: set[bytes] = set()
        at = 0
        while (match := self._expression.search(data, at)) is not None:
            begin, end = match[0]
            found.add(data[begin:end].lower())
            at = begin + 1  # the next word may begin in this one
        numbers = {rule.number for word in found for rule in self._by_word.get(word, ())}
        numbers.update(rule.number for rule in self._always)
        return [rule for rule in self._rules if rule.number in numbers] if numbers else []
