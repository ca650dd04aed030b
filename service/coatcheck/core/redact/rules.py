"""The rules by which secrets are found: gitleaks' set, read from its own file, and a few of ours.

Every expression is RE2's, linear in the text. What cannot work on a payload is not dropped silently but listed, with
the reason; so is what is off unless asked for. Finds nothing by itself.
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from coatcheck.core.redact.engine import Expression
from coatcheck.core.redact.own_rules import OWN, OwnRule

GENERIC: Final = "generic-api-key"
PRIVATE_KEY: Final = "private-key"
DEFAULT_OFF: Final = {
    "hashicorp-tf-password": "made for files of Terraform; elsewhere any word in quotes after `password`",
    GENERIC: "any long word after `key`, `token`, `auth` or `secret`: mostly identifiers and checksums in real text",
}
"""Rules that are off unless they are asked for."""

_LEAD: Final = r"[\w.-]{0,50}?"
"""What an expression of the set begins with where a name stands before the secret: it is no part of it."""
_QUOTES: Final = (
    (r"""[\s'"]{0,3}""", r"""[\s'"\\]{0,16}"""),
    (r"""[\x60'"\s=]{0,5}""", r"""[\x60'"\s=\\]{0,24}"""),
    (r"""["']""", r"""\\{0,3}["']"""),
)
"""Between name and secret: also the escaped quotes of JSON inside JSON."""
_BLANKS: Final = (
    (r"[ \t\n\r](?:-", r"(?:[ \t\n\r]|\\[nrt])[+>-]?(?:-"),  # a diff's sign, too
    (r"[ \t]", r"(?:[ \t]|\\{1,3}t)"),
    (r"(?:\s|\z)", r"""(?:[\s<;&|)"'\\]|\z)"""),
)
_BETWEEN: Final = (
    (r"(?:.*|.*(?:[\r\n]{1,2}.*){1,5})", r"(?:.*?|.*?(?:[\r\n]{1,2}.*?){1,5}?)"),
    ("(.{8,})", "(.{8,}?)"),
)
"""Where anything may stand: as little as possible, or the first of two secrets in a line of JSON is passed over."""
_EDGES: Final = (
    (r"""(?:^|[\\'"\x60\s>=:(,)])""", r"""(?:^|[\\'"\x60\s>=:(,)+\[{|;-]|\\[nrtbf])"""),
    (r"""(?:$|[\\'"\x60\s<),])""", r"(?:$|[^\w~.-])"),
)
"""Around a token whose rule names what may stand there: a diff's signs and line ends as JSON writes them as well."""
_END: Final = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_END_OF_VALUE: Final = r"(?:[\x60'\"\s;,)\]}<&]|\\[nrtu'\"\\]|$)"
"""What may follow a secret that a name announces: in a program, and in JSON, a URL or a page as well."""
_END_OF_TOKEN: Final = r"(?:[^\w-]|$)"  # noqa: S105 - no password
"""What may follow one that is known by its own first letters: anything that cannot be a part of it."""
_BEGIN: Final = re.compile(r"((?:^|\|)(?:\(\?i\))?)\\b(?=\(|[A-Za-z])")
_BEGIN_OF_TOKEN: Final = r"(?:\b|\\[nrtbf]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2})"  # noqa: S105 - no password
"""What may stand before a token: also a line's end as JSON writes it, whose last letter looks like a part of it."""
_PARTS: Final = re.compile(r"\\.|\[\^?\]?|.", re.DOTALL)
_OWN_EXTENT: Final = frozenset({"jwt-base64", "microsoft-teams-webhook"})
"""Rules whose groups are parts of the secret: all of the match is masked."""
_ANYWHERE: Final = frozenset({"facebook-access-token", "slack-config-access-token", "slack-webhook-url"})
"""Rules whose word need not be in the match, only somewhere in the file; a payload may well not have it."""
_WITHOUT: Final = {"sourcegraph-access-token": ("|[a-fA-F0-9]{40}", "any checksum in a text that names the product")}
"""Alternatives of an expression that are left out, and why."""
_ELSEWHERE: Final = {
    PRIVATE_KEY: "found by its lines instead, also where one of its ends is cut off",
}
_COUNT: Final = 6
"""The longest count in expressions that are looked for together."""
_NO_PATHS: Final = "a payload has no path"


class AllowedMatch(Struct, frozen=True):
    """When a match is no secret."""

    patterns: tuple[Expression, ...]
    stopwords: tuple[bytes, ...]
    target: str
    """`secret`, `match` or `line`."""


class RedactionRule(Struct, frozen=True):
    """One way in which secrets are written."""

    number: int
    name: str
    pattern: Expression
    source: str
    """The expression, for those that are looked for together."""
    keywords: tuple[bytes, ...]
    """In lower case; one of them is in every match. Empty: not known."""
    entropy: float
    """Bits a character that a secret has more of; 0: any."""
    whole: bool
    """All of the match is the secret, not its longest group."""
    named: bool
    """A name before the secret announces it: alone it could be anything."""
    own: bool = False
    allowed: tuple[AllowedMatch, ...] = ()


class UnusedRule(Struct, frozen=True):
    """A rule of the set, or a part of one, that is not used."""

    rule: str
    why: str


class RuleSet(Struct, frozen=True):
    """The compiled rules of one configuration, and those of it that are not used."""

    rules: tuple[RedactionRule, ...]
    left_out: tuple[UnusedRule, ...]
    allowed: AllowedMatch
    """For every rule of the set."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rules, in the order of their numbers."""
        return tuple(rule.name for rule in self.rules)


def read_rules(toml: str, *, asked: Iterable[str] = (), off: Iterable[str] = ()) -> RuleSet:
    """The rules of a gitleaks configuration and our own.

    Args:
        toml: the configuration's text.
        asked: names of rules to use although they are off by default.
        off: names of rules not to use.

    Raises:
        ValueError: it is no configuration, or says nothing of rules.
    """
    config = tomllib.loads(toml)
    unwanted = {**DEFAULT_OFF, **dict.fromkeys(off, "switched off")}
    for name in asked:
        unwanted.pop(name, None)
    left: list[UnusedRule] = []
    used = [rule for rule in OWN if rule.name not in unwanted]
    rules: list[RedactionRule] = [_own(number, rule) for number, rule in enumerate(used)]
    for raw in cast("list[dict[str, Any]]", config["rules"]):
        why = _why_not(raw, unwanted)
        if why is not None:
            left.append(UnusedRule(raw["id"], why))
            continue
        try:
            rule, parts = _rule(len(rules), raw)
        except ValueError as error:
            left.append(UnusedRule(raw["id"], f"RE2 does not take its expression: {error}"))
            continue
        rules.append(rule)
        left += parts
    left += [UnusedRule(rule.name, unwanted[rule.name]) for rule in OWN if rule.name in unwanted]
    allowed, _ = _allowed(cast("dict[str, Any]", config.get("allowlist", {})))
    return RuleSet(tuple(rules), tuple(left), allowed)


def _why_not(raw: dict[str, Any], unwanted: dict[str, str]) -> str | None:
    if "regex" not in raw:
        return "it names files, not their content"
    return _ELSEWHERE.get(raw["id"]) or unwanted.get(raw["id"])


def _own(number: int, rule: OwnRule) -> RedactionRule:
    allowed = AllowedMatch(tuple(Expression(each) for each in rule.allowed), (), "secret")
    return RedactionRule(
        number=number,
        name=rule.name,
        pattern=Expression(rule.expression),
        source=rule.expression,
        keywords=(),
        entropy=rule.entropy,
        whole=False,
        named=True,
        own=True,
        allowed=(allowed,),
    )


def _rule(number: int, raw: dict[str, Any]) -> tuple[RedactionRule, list[UnusedRule]]:
    expression = cast("str", raw["regex"])
    named = _LEAD in expression
    without, why_without = _WITHOUT.get(raw["id"], ("", ""))
    source = _adapted(expression.replace(without, ""), named=named)
    allowed: list[AllowedMatch] = []
    left = [UnusedRule(raw["id"], f"{without[1:]}: {why_without}")] if without else []
    left += [] if "path" not in raw else [UnusedRule(raw["id"], f"its limit to paths: {_NO_PATHS}")]
    for each in cast("list[dict[str, Any]]", raw.get("allowlists", [])):
        made, why = _allowed(each)
        allowed += [] if why else [made]
        left += [UnusedRule(raw["id"], f"an exception of it: {why}")] if why else []
    rule = RedactionRule(
        number=number,
        name=raw["id"],
        pattern=Expression(source),
        source=source,
        keywords=() if raw["id"] in _ANYWHERE else tuple(word.lower().encode() for word in raw.get("keywords", ())),
        entropy=float(raw.get("entropy", 0)),
        whole=raw["id"] in _OWN_EXTENT,
        named=named,
        allowed=tuple(allowed),
    )
    return rule, left


def _adapted(expression: str, *, named: bool) -> str:
    """The set is made for files of programs; payloads are JSON inside JSON, URLs and pages as well."""
    source = expression.replace(_LEAD, "").replace(_END, _END_OF_VALUE if named else _END_OF_TOKEN)
    source = _BEGIN.sub(lambda found: f"{found.group(1)}{_BEGIN_OF_TOKEN}", source.replace(r"\b(\b(", r"\b(("))
    for narrow, wide in (*_EDGES, *_QUOTES, *_BLANKS, *_BETWEEN):
        source = source.replace(narrow, wide)
    for word in ("data:", "kind:"):
        source = source.replace(rf"\b{word}", f"{_BEGIN_OF_TOKEN}{word}")
    source = source.replace(r"\bsecret\b", r"secret\b")
    return _escaped_quotes(source)


def _escaped_quotes(expression: str) -> str:
    """Returns the expression for text in which quotes have backslashes before them, as JSON in a string has."""
    out: list[str] = []
    in_set = False
    for part in _PARTS.findall(expression):
        out.append(r"\\{0,3}" + part if part in {'"', r"\""} and not in_set else part)
        in_set = part.startswith("[") or (in_set and part != "]")
    return "".join(out)


def _allowed(raw: dict[str, Any]) -> tuple[AllowedMatch, str | None]:
    """An exception, and why it cannot be used."""
    patterns = cast("Sequence[str]", raw.get("regexes", ()))
    words = tuple(word.lower().encode() for word in raw.get("stopwords", ()))
    target = cast("str", raw.get("regexTarget", "secret"))
    why = None
    if raw.get("condition") == "AND" and raw.get("paths"):
        why = f"it is for certain paths, and {_NO_PATHS}"
    elif not patterns and not words:
        why = f"it names paths only, and {_NO_PATHS}"
    return AllowedMatch(tuple(map(Expression, patterns)), words, target), why


def loosened(source: str) -> str:
    """An expression that matches all that `source` does and more, in a tenth of its size: long counts become short.

    Many expressions with long counts, looked for together, would take more automata than there is memory for.
    """
    return re.sub(r"(?<!\\)\{(\d+)(,?)(\d*)\}", _short_count, uncaptured(source))


def _short_count(count: re.Match[str]) -> str:
    least, comma, most = count.groups()
    short = min(int(least), _COUNT)
    return count.group() if int(most or least) <= _COUNT and (most or not comma) else f"{{{short},}}"


def uncaptured(source: str) -> str:
    """An expression without groups that are remembered, for use among others."""
    return re.sub(r"(?<!\\)\((?:\?P<\w+>|(?!\?))", "(?:", source)
