"""The rules for finding secrets: gitleaks' rule set, read from its own file, and some rules of the service's own.

Rules that cannot work on payloads and rules that are off by default are not dropped silently: they are listed with the
reason. RE2 matches every expression over bytes, in linear time and with little overhead per match. Each byte counts as
a character, because the rules concern ASCII; invalid UTF-8 is searched like anything else.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from coatcheck.core.redact.own_rules import OWN, OwnRule
from coatcheck.core.text.scan import LATIN1, UNANCHORED, re2_compiled

Spans = list[tuple[int, int]]
"""Start and end of a match and of each of its groups; (-1, -1) for a group that took no part in the match."""
_MEMORY: Final = 16 * 1024 * 1024
"""Bytes of memory for the automata of one expression. With less, RE2 becomes many times slower."""


class Expression:
    """A compiled expression. Safe to use from several threads at once."""

    def __init__(self, source: str, *, groups: bool = True) -> None:
        """Compiles an expression. Without `groups`, only the match itself is reported, which is faster.

        Raises:
            ValueError: RE2 rejects the expression; the message says why.
        """
        regex = re2_compiled(source.encode("latin-1"), _MEMORY, never_capture=not groups, encoding=LATIN1)
        if not regex.ok():
            raise ValueError(bytes(regex.error()).decode("utf-8", "replace"))
        self._match = cast("Callable[[Any, bytes, int, int], Spans]", regex.Match)

    def search(self, data: bytes, start: int = 0, end: int | None = None) -> Spans | None:
        """Returns the leftmost match in `data[start:end]` as positions in `data`; anchors see all of `data`."""
        spans = self._match(UNANCHORED, data, start, len(data) if end is None else end)
        return None if spans[0][0] < 0 else spans

    def each(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yields all matches from left to right."""
        at, size = 0, len(data)
        while at <= size:
            begin, end = self._match(UNANCHORED, data, at, size)[0]
            if begin < 0:
                return
            yield begin, end
            at = end if end > begin else end + 1


GENERIC: Final = "generic-api-key"
PRIVATE_KEY: Final = "private-key"
DEFAULT_OFF: Final = {
    "hashicorp-tf-password": "made for files of Terraform; elsewhere any word in quotes after `password`",
    GENERIC: "any long word after `key`, `token`, `auth` or `secret`: mostly identifiers and checksums in real text",
}
"""Rules that are off unless requested, each with the reason."""

_LEAD: Final = r"[\w.-]{0,50}?"
"""Beginning of those expressions of the set in which a name precedes the secret; the name is not part of the secret."""
_QUOTES: Final = (
    (r"""[\s'"]{0,3}""", r"""[\s'"\\]{0,16}"""),
    (r"""[\x60'"\s=]{0,5}""", r"""[\x60'"\s=\\]{0,24}"""),
    (r"""["']""", r"""\\{0,3}["']"""),
)
"""Separators of name and secret, each with its wider replacement, which also allows escaped quotes of nested JSON."""
_BLANKS: Final = (
    (r"[ \t\n\r](?:-", r"(?:[ \t\n\r]|\\[nrt])[+>-]?(?:-"),  # a diff's sign, too
    (r"[ \t]", r"(?:[ \t]|\\{1,3}t)"),
    (r"(?:\s|\z)", r"""(?:[\s<;&|)"'\\]|\z)"""),
)
_BETWEEN: Final = (
    (r"(?:.*|.*(?:[\r\n]{1,2}.*){1,5})", r"(?:.*?|.*?(?:[\r\n]{1,2}.*?){1,5}?)"),
    ("(.{8,})", "(.{8,}?)"),
)
"""Greedy parts of expressions, each with its lazy replacement: a greedy part would miss the first of two secrets on a
line."""
_EDGES: Final = (
    (r"""(?:^|[\\'"\x60\s>=:(,)])""", r"""(?:^|[\\'"\x60\s>=:(,)+\[{|;-]|\\[nrtbf])"""),
    (r"""(?:$|[\\'"\x60\s<),])""", r"(?:$|[^\w~.-])"),
)
"""Expressions for what may stand around a token, each with its wider replacement, which also allows the signs of a diff
and the escaped line ends of JSON."""
_END: Final = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_END_OF_VALUE: Final = r"(?:[\x60'\"\s;,)\]}<&]|\\[nrtu'\"\\]|$)"
"""Matches what may follow a secret that has a name before it: in a program, in JSON, in a URL or in a page."""
_END_OF_TOKEN: Final = r"(?:[^\w-]|$)"  # noqa: S105 - no password
"""Matches what may follow a secret with a known prefix: any character that cannot be part of the secret."""
_BEGIN: Final = re.compile(r"((?:^|\|)(?:\(\?i\))?)\\b(?=\(|[A-Za-z])")
_BEGIN_OF_TOKEN: Final = r"(?:\b|\\[nrtbf]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2})"  # noqa: S105 - no password
"""Matches what may precede a token, such as an escaped line end of JSON, whose last letter looks like part of it."""
_PARTS: Final = re.compile(r"\\.|\[\^?\]?|.", re.DOTALL)
_OWN_EXTENT: Final = frozenset({"jwt-base64", "microsoft-teams-webhook"})
"""Rules whose groups match only parts of the secret, so that the whole match is masked."""
_ANYWHERE: Final = frozenset(
    {"airtable-personnal-access-token", "facebook-access-token", "slack-config-access-token", "slack-webhook-url"}
)
"""Rules whose keyword may be anywhere in the file. Their keywords are ignored, because a payload may well lack them."""
_WITHOUT: Final = {"sourcegraph-access-token": ("|[a-fA-F0-9]{40}", "any checksum in a text that names the product")}
"""Alternatives that are removed from a rule's expression, each with the reason."""
_NO_END: Final = re.compile(r"[\w-]+")
"""Matches an expression that describes only the beginning of a token."""
_ELSEWHERE: Final = {PRIVATE_KEY: "found by its lines instead, also where one of its ends is cut off"}
_COUNT: Final = 6
"""Largest repetition count in expressions that are combined into one."""
_NO_PATHS: Final = "a payload has no path"


class AllowedMatch(Struct, frozen=True):
    """An exception: a match that is not a secret."""

    patterns: tuple[Expression, ...]
    stopwords: tuple[bytes, ...]
    target: str
    """Text that the exception is checked against: the `secret`, the `match`, its `line`, or the bytes `before` it."""


class RedactionRule(Struct, frozen=True):
    """A rule for one form of secrets."""

    number: int
    """Number by which fillers name the rule; also its index in the rule set."""
    name: str
    pattern: Expression
    source: str
    """The expression's text, for combining it with others."""
    keywords: tuple[bytes, ...]
    """Words in lower case: every match contains at least one of them. Empty: no such words are known."""
    entropy: float
    """Entropy that a secret must exceed, in bits per byte; 0: no minimum."""
    whole: bool
    """Whether the whole match is the secret, rather than its longest group."""
    needs_name: bool
    """Whether a name must precede the secret, because the secret by itself could be anything."""
    own: bool = False
    """Whether the rule is the service's own: the set's general exceptions do not apply to it."""
    by_name: bool = False
    """Whether candidates for this rule are found by NAMED_VALUE."""
    allowed: tuple[AllowedMatch, ...] = ()
    """Exceptions that apply to this rule only."""
    needs: tuple[Expression, ...] = ()
    """Expressions that must all match in the secret."""


class UnusedRule(Struct, frozen=True):
    """A rule of the set, or a part of a rule, that is not used."""

    rule: str
    why: str


class RuleSet(Struct, frozen=True):
    """The compiled rules of one configuration, and the rules that are not used."""

    rules: tuple[RedactionRule, ...]
    left_out: tuple[UnusedRule, ...]
    allowed: AllowedMatch
    """The exception that applies to every rule of the set, but not to the service's own rules."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rules, in the order of their numbers."""
        return tuple(rule.name for rule in self.rules)


def read_rules(toml: str, *, extra: Iterable[str] = (), off: Iterable[str] = ()) -> RuleSet:
    """Returns the rules of a gitleaks configuration together with the service's own.

    Args:
        toml: the configuration's text.
        extra: names of rules to use although they are off by default.
        off: names of rules not to use.

    Raises:
        ValueError: the text is not TOML, or the expression of a general exception is invalid.
        KeyError: the configuration has no rules.
    """
    config = tomllib.loads(toml)
    unwanted = {**DEFAULT_OFF, **dict.fromkeys(off, "switched off")}
    for name in extra:
        unwanted.pop(name, None)
    # The service's own rules have the first numbers, so that these do not depend on which rules of the set are used.
    unused_rules: list[UnusedRule] = []
    used = [rule for rule in OWN if rule.name not in unwanted]
    rules: list[RedactionRule] = [_own(number, rule) for number, rule in enumerate(used)]
    for raw in cast("list[dict[str, Any]]", config["rules"]):
        why = _why_not(raw, unwanted)
        if why is not None:
            unused_rules.append(UnusedRule(raw["id"], why))
            continue
        try:
            rule, parts = _rule(len(rules), raw)
        except ValueError as error:
            unused_rules.append(UnusedRule(raw["id"], f"RE2 does not take its expression: {error}"))
            continue
        rules.append(rule)
        unused_rules += parts
    unused_rules += [UnusedRule(rule.name, unwanted[rule.name]) for rule in OWN if rule.name in unwanted]
    allowed, _ = _read_exception(cast("dict[str, Any]", config.get("allowlist", {})))
    return RuleSet(tuple(rules), tuple(unused_rules), allowed)


def _why_not(raw: dict[str, Any], unwanted: dict[str, str]) -> str | None:
    if "regex" not in raw:
        return "it names files, not their content"
    return _ELSEWHERE.get(raw["id"]) or unwanted.get(raw["id"])


def _own(number: int, rule: OwnRule) -> RedactionRule:
    allowed = [AllowedMatch(tuple(map(Expression, rule.allowed)), (), "secret")]
    source = _BEGIN.sub(lambda match: f"{match.group(1)}{_BEGIN_OF_TOKEN}", rule.expression)
    for exception, target in ((rule.unless_after, "before"), (rule.unless, "match")):
        allowed += [AllowedMatch((Expression(exception),), (), target)] if exception else []
    return RedactionRule(
        number=number,
        name=rule.name,
        pattern=Expression(source),
        source=source,
        keywords=tuple(map(str.encode, rule.keywords)),
        entropy=rule.entropy,
        whole=False,
        needs_name=True,
        own=True,
        by_name=rule.by_name,
        allowed=tuple(allowed),
        needs=tuple(map(Expression, rule.needs)),
    )


def _rule(number: int, raw: dict[str, Any]) -> tuple[RedactionRule, list[UnusedRule]]:
    expression = cast("str", raw["regex"])
    needs_name = _LEAD in expression
    without, why_without = _WITHOUT.get(raw["id"], ("", ""))
    expression = expression.replace(without, "") + (r"[\w+/=.-]*" if _NO_END.fullmatch(expression) else "")
    source = _adapt_expression(expression, needs_name=needs_name)
    # A part of a rule that cannot be used is listed like a rule that is not used at all.
    allowed: list[AllowedMatch] = []
    unused_rules = [UnusedRule(raw["id"], f"{without[1:]}: {why_without}")] if without else []
    unused_rules += [] if "path" not in raw else [UnusedRule(raw["id"], f"its limit to paths: {_NO_PATHS}")]
    for each in cast("list[dict[str, Any]]", raw.get("allowlists", [])):
        allowed_match, why = _read_exception(each)
        allowed += [] if why else [allowed_match]
        unused_rules += [UnusedRule(raw["id"], f"an exception of it: {why}")] if why else []
    rule = RedactionRule(
        number=number,
        name=raw["id"],
        pattern=Expression(source),
        source=source,
        keywords=() if raw["id"] in _ANYWHERE else tuple(word.lower().encode() for word in raw.get("keywords", ())),
        entropy=float(raw.get("entropy", 0)),
        whole=raw["id"] in _OWN_EXTENT,
        needs_name=needs_name,
        allowed=tuple(allowed),
    )
    return rule, unused_rules


def _adapt_expression(expression: str, *, needs_name: bool) -> str:
    """Adapts an expression of the set, made for source files, to JSON inside JSON, URLs and pages."""
    source = expression.replace(_LEAD, "").replace(_END, _END_OF_VALUE if needs_name else _END_OF_TOKEN)
    source = _BEGIN.sub(lambda match: f"{match.group(1)}{_BEGIN_OF_TOKEN}", source.replace(r"\b(\b(", r"\b(("))
    for narrow, wide in (*_EDGES, *_QUOTES, *_BLANKS, *_BETWEEN):
        source = source.replace(narrow, wide)
    for word in ("data:", "kind:"):
        source = source.replace(rf"\b{word}", f"{_BEGIN_OF_TOKEN}{word}")
    source = source.replace(r"\bsecret\b", r"secret\b")
    return _escape_quotes(source)


def _escape_quotes(expression: str) -> str:
    """Returns the expression for text whose quotes are escaped by backslashes, as in JSON inside a string."""
    out: list[str] = []
    in_set = False
    for part in _PARTS.findall(expression):
        out.append(r"\\{0,3}" + part if part in {'"', r"\""} and not in_set else part)
        in_set = part.startswith("[") or (in_set and part != "]")
    return "".join(out)


def _read_exception(raw: dict[str, Any]) -> tuple[AllowedMatch, str | None]:
    """Returns an exception, and the reason why it cannot be used; None: it can be used."""
    patterns = cast("Sequence[str]", raw.get("regexes", ()))
    words = tuple(word.lower().encode() for word in raw.get("stopwords", ()))
    target = cast("str", raw.get("regexTarget", "secret"))
    why = None
    if raw.get("condition") == "AND" and raw.get("paths"):
        why = f"it is for certain paths, and {_NO_PATHS}"
    elif not patterns and not words:
        why = f"it names paths only, and {_NO_PATHS}"
    return AllowedMatch(tuple(map(Expression, patterns)), words, target), why


def loosen_expression(source: str) -> str:
    """Returns an expression that matches everything that `source` matches, and more, at a tenth of its size.

    It shortens large repetition counts: in a combined expression, they would need more memory than RE2 gets.
    """
    return re.sub(r"(?<!\\)\{(\d+)(,?)(\d*)\}", _short_count, drop_captures(source))


def _short_count(count: re.Match[str]) -> str:
    least, comma, most = count.groups()
    short = min(int(least), _COUNT)
    return count.group() if int(most or least) <= _COUNT and (most or not comma) else f"{{{short},}}"


def drop_captures(source: str) -> str:
    """Returns an expression without capturing groups, for combining it with others."""
    return re.sub(r"(?<!\\)\((?:\?P<\w+>|(?!\?))", "(?:", source)
