"""Finds secrets: applies all rules in a few linear passes over the bytes, then examines the candidates.

Rules for secrets that can be recognised by themselves are combined into one expression; rules for secrets after a name
are found by the names. Each candidate is then tried with every rule whose keywords are present. Text without secrets
costs only the passes. Results say where secrets are, never what their text is.
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Final, final

from coatcheck.core.redact.filler import SecretRange, keys, merge_ranges
from coatcheck.core.redact.normal_form import map_secrets, normal_forms
from coatcheck.core.redact.own_rules import NAMED_VALUE
from coatcheck.core.redact.rules import (
    GENERIC,
    PRIVATE_KEY,
    AllowedMatch,
    Expression,
    RedactionRule,
    RuleSet,
    Spans,
    drop_captures,
    loosen_expression,
)

_NEXT: Final = r"""(?:[ \t\w.-]{0,20})[\s'"\\]{0,16}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=\\]{0,24}"""
"""Matches what the rule set allows between a name and its secret."""
_NAMED: Final = r"[\w=.:%\"-]{8}"
_NAME: Final = r"""(?:[ \t\w.-]{0,20})[\s'"\\]{0,16}"""
_FAR: Final = 512
"""Bytes after a candidate within which its secret must end; the longest secret has 210."""
_SPREAD: Final = 4_096
"""Bytes around a candidate within which a secret of several lines must be."""
_LEADS: Final = 8
"""Bytes before a word that decide whether a rule may match there: an escaped line end in JSON takes up to six."""
_BEFORE: Final = 32
"""Bytes before a match that an exception may examine, for example to recognise another name."""
_LINES: Final = ("curl-auth-header", "curl-auth-user", "kubernetes-secret-yaml", "jwt-base64")
"""Rules whose secrets span several lines."""
_WORDS: Final = r"(?i:curl[\s\\]|kind:(?:[ \t]|\\+t)*[\\\"']*secret\b|zxlk)"
_WORD_STARTS: Final = (b"curl", b"kind", b"zxlk")
"""First four letters of the words that locate matches of the rules in `_LINES`."""
_ALONE: Final = r"|(?:\b|"
"""Beginning of an alternative that needs no name, in a rule for secrets that follow a name."""
_REST: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-")
MARGIN: Final = 8 * 1024
"""Bytes before and after a text that are searched with it, so that secrets across its ends are found. Longer keys are
found by their lines."""


@final
class RuleWords:
    """Selects, in one pass over a text, the rules that may match in it: those with a keyword in the text."""

    def __init__(self, rules: list[RedactionRule]) -> None:
        self._rules = rules
        self._always = tuple(rule for rule in rules if not rule.keywords)
        words = sorted({word for rule in rules for word in rule.keywords}, key=lambda word: (-len(word), word))
        # The longest word at a position is found; it also stands for the words inside it.
        self._by_word = {
            word: tuple(rule for rule in rules if any(inner in word for inner in rule.keywords)) for word in words
        }
        source = "|".join(re.escape(word.decode("latin-1")) for word in words)
        self._expression = Expression(f"(?i){source}", groups=False) if words else None

    def rules(self, data: bytes) -> list[RedactionRule]:
        """Returns the rules that may match in a short text, in order."""
        if self._expression is None:
            return list(self._always)
        words: set[bytes] = set()
        at = 0
        while (match := self._expression.search(data, at)) is not None:
            begin, end = match[0]
            words.add(data[begin:end].lower())
            at = begin + 1  # the next word may begin inside this one
        numbers = {rule.number for word in words for rule in self._by_word.get(word, ())}
        numbers.update(rule.number for rule in self._always)
        return [rule for rule in self._rules if rule.number in numbers] if numbers else []


class SecretFinder:
    """Finds the secrets of one rule set. Safe to use from several threads at once."""

    def __init__(self, rules: RuleSet) -> None:
        """Prepares the combined expressions for the rules, which takes about 0.1 seconds."""
        self._rules = rules
        self.names = rules.names
        by_name = {rule.name: rule for rule in rules.rules}
        key = by_name.get(PRIVATE_KEY)
        self._key = None if key is None else key.number
        self._multiline_rules = [by_name[name] for name in _LINES if name in by_name]
        self._generic = by_name.get(GENERIC)
        single_line_rules = [
            rule
            for rule in rules.rules
            if rule not in self._multiline_rules and rule.name not in {PRIVATE_KEY, GENERIC}
        ]
        own = [rule for rule in single_line_rules if rule.own]
        self._plain = [
            rule for rule in single_line_rules if not rule.own and (not rule.needs_name or _ALONE in rule.source)
        ]
        self._named = [rule for rule in single_line_rules if rule.needs_name and not rule.own]
        # Two expressions, because the states of a single one would not fit into RE2's memory.
        sources = [f"(?:{loosen_expression(rule.source)})" for rule in own if not rule.by_name]
        sources += [NAMED_VALUE] if any(rule.by_name for rule in own) else []
        plain = [f"(?:{loosen_expression(rule.source)})" for rule in self._plain]
        self._combined = [
            (Expression("|".join(each), groups=False), RuleWords(rules))
            for each, rules in ((plain, self._plain), ([*sources, *([_WORDS] if self._multiline_rules else [])], own))
            if each
        ]
        names = "|".join(sorted({drop_captures(_name_of(rule)) for rule in self._named}))
        self._names = Expression(f"(?i)(?:{names}){_NEXT}{_NAMED}", groups=False) if self._named else None
        self._announcing = RuleWords(self._named)

    def find(self, data: bytes, *, begins: bool = True, ends: bool = True) -> list[SecretRange]:
        """Returns the secrets in `data`, in order, without overlaps.

        `begins` and `ends` say whether the whole text begins and ends with `data`; if not, a private key may be cut
        off.
        """
        secrets = self._find_in(data, begins=begins, ends=ends)
        for text, steps in normal_forms(data):
            secrets += map_secrets(self._find_in(text, begins=begins, ends=ends), steps)
        return merge_ranges(secrets)

    def _find_in(self, data: bytes, *, begins: bool, ends: bool) -> list[SecretRange]:
        secrets: list[SecretRange] = []
        if self._key is not None:
            secrets += keys(data, self._key, begins=begins, ends=ends)
        for pattern, nearby in self._combined:
            self._each(pattern, data, lambda a, b, nearby=nearby: self._candidate(nearby, data, a, b, secrets))
        if self._names is not None:
            self._each(self._names, data, lambda a, b: self._try_announced(data, a, b, secrets))
        if self._generic is not None:
            generic = self._generic
            self._each(generic.pattern, data, lambda a, b: self._try_rules([generic], data, a, b, secrets))
        return secrets

    @staticmethod
    def _each(pattern: Expression, data: bytes, on_match: Callable[[int, int], int]) -> None:
        """Calls `on_match` for each match; the callback returns the position at which the search continues."""
        at = 0
        while (match := pattern.search(data, at)) is not None:
            begin, end = match[0]
            at = max(on_match(begin, end), begin + 1)

    def _candidate(self, nearby: RuleWords, data: bytes, begin: int, end: int, secrets: list[SecretRange]) -> int:
        if data[begin : begin + 4].lower() in _WORD_STARTS:
            self._over_lines(data, begin, end, secrets)
        return self._try_rules(nearby.rules(data[begin:end]), data, begin, end, secrets)

    def _try_rules(
        self, rules: list[RedactionRule], data: bytes, begin: int, end: int, secrets: list[SecretRange]
    ) -> int:
        """Tries rules at a candidate, adds the secrets to `secrets`, and returns where to continue."""
        last = 0
        for rule in rules:
            match = rule.pattern.search(data, begin, min(len(data), end + _FAR))
            if match is None or match[0][0] > end:
                continue
            secret = self._judge_match(rule, data, match)
            if secret is not None:
                secrets.append(secret)
                last = max(last, secret.end)
        return last or begin + 1

    def _try_announced(self, data: bytes, begin: int, end: int, secrets: list[SecretRange]) -> int:
        """Tries the rules whose names precede a candidate."""
        self._try_rules(self._announcing.rules(data[begin : end + _FAR]), data, begin, end, secrets)
        return end - 8 if end - 8 > begin else end

    def _over_lines(self, data: bytes, begin: int, end: int, secrets: list[SecretRange]) -> int:
        low, high = max(0, begin - _SPREAD), min(len(data), end + _SPREAD)
        for rule in self._multiline_rules:
            at = low if rule.name.startswith("kubernetes") else max(0, begin - _LEADS)
            while (match := rule.pattern.search(data, at, high)) is not None:
                secret = self._judge_match(rule, data, match)
                secrets += [] if secret is None else [secret]
                at = max(match[0][1], at + 1)
        return end

    def _judge_match(self, rule: RedactionRule, data: bytes, match: Spans) -> SecretRange | None:
        """Returns the secret in a match; None if the rule's conditions or exceptions exclude it."""
        start, end = _extent(rule, match)
        secret = data[start:end]
        if rule.entropy and entropy(secret) <= rule.entropy:
            return None
        if any(need.search(secret) is None for need in rule.needs):
            return None
        if b"\x1b" in secret:
            secret = [secret, *(text for text, _ in normal_forms(secret))][-1]
        exceptions = (*rule.allowed, self._rules.allowed) if not rule.own else rule.allowed
        if any(_allows(each, data, match, secret) for each in exceptions):
            return None
        if not rule.needs_name and data[end - 1] in _REST:  # a rule with a name matches the secret's end itself
            while end < len(data) and data[end] in _REST:
                end += 1
        return SecretRange(start, end, rule.number)


def entropy(secret: bytes) -> float:
    """Returns the Shannon entropy of a secret, in bits per byte."""
    size = len(secret)
    return -sum(n / size * math.log2(n / size) for n in Counter(secret).values()) if size else 0.0


def _extent(rule: RedactionRule, match: Spans) -> tuple[int, int]:
    """Returns the range of the secret in a match: its longest group, or the whole match."""
    best = max(match[1:], key=lambda span: span[1] - span[0], default=(0, 0))
    return match[0] if rule.whole or best[1] <= best[0] else best


def _allows(each: AllowedMatch, data: bytes, match: Spans, secret: bytes) -> bool:
    if each.stopwords:
        low = secret.lower()
        if any(word in low for word in each.stopwords):
            return True
    if not each.patterns:
        return False
    start, end = match[0]
    if each.target == "match":
        target = data[_word_start(data, start) : end]
    elif each.target == "before":
        target = data[max(0, start - _BEFORE) : start]
    elif each.target == "line":
        last = data.find(b"\n", end)
        target = data[data.rfind(b"\n", 0, start) + 1 : end if last < 0 else last]
    else:
        target = secret
    return any(pattern.search(target) is not None for pattern in each.patterns)


def _word_start(data: bytes, at: int) -> int:
    """Returns the start of the name that a match at `at` begins in: exceptions are checked against the whole name."""
    low = max(0, at - 50)
    while at > low and (data[at - 1] in _REST or data[at - 1] == ord(".")):
        at -= 1
    return at


def _name_of(rule: RedactionRule) -> str:
    """Returns the part of a rule's expression that matches the name.

    Raises:
        ValueError: the expression has no name before its secret.
    """
    source = rule.source
    end = source.index(_NAME)
    for lead in ("(?i:(?:", "(?i)(?:", "(?i:"):
        begin = source.find(lead)
        if 0 <= begin < end:
            return f"(?:{source[begin + len(lead) : end]}" if lead.endswith("(?:") else source[begin + len(lead) : end]
    raise ValueError(f"{rule.name} has no name before its secret")
