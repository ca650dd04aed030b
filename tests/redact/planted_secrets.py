"""Secrets made from the rules themselves: text that a rule's own expression matches, with the secret in it.

Written from the expression of the rule set, not from what this project makes of it, and checked against that.
"""

import importlib
import re
import tomllib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

import re2

from coatcheck.core.redact.find import entropy
from coatcheck.core.redact.rules import DEFAULT_OFF

parser = cast("Any", importlib.import_module("re._parser"))  # the one that Python has
op = cast("Any", importlib.import_module("re._constants"))
RULES = Path(__file__).parents[2] / "service/coatcheck/core/redact/gitleaks.toml"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SPACE = " "


class Planted(NamedTuple):
    """A text with a secret in it."""

    rule: str
    text: str
    """All of it: a name before the secret, if the rule needs one, and what follows."""
    secret: str


@cache
def _raw() -> dict[str, dict[str, Any]]:
    return {rule["id"]: rule for rule in tomllib.loads(RULES.read_text())["rules"] if "regex" in rule}


@cache
def _allowed() -> dict[str, Any]:
    return tomllib.loads(RULES.read_text())["allowlist"]


def names() -> list[str]:
    """Rules that secrets can be made for, but those that are off by default."""
    return [name for name in _raw() if name not in DEFAULT_OFF]


def plant(rule: str, random: Random) -> Planted:
    """A text that the rule's own expression finds a secret in."""
    raw = _raw()[rule]
    tree = _tree(raw["regex"])
    pattern = _compiled(raw["regex"])
    for _ in range(400):
        text = _made(tree, random)
        if not any(word in text.lower() for word in raw["keywords"]):
            text = f"{raw['keywords'][0]} {text}"
        match = pattern.search(text.encode("latin-1"))
        if match is None:
            continue
        groups = [group for group in match.groups() if group]
        secret = (
            max(groups, key=len) if groups and rule not in {"jwt-base64", "microsoft-teams-webhook"} else match.group()
        )
        if rule == "sourcegraph-access-token" and b"sgp_" not in secret:
            continue  # the form that is left out
        if len(secret) >= 8 and _counts(raw, match.group(), secret):
            return Planted(rule, text, secret.decode("latin-1"))
    raise AssertionError(f"no secret could be made for {rule}")


def _counts(raw: dict[str, Any], match: bytes, secret: bytes) -> bool:
    if entropy(secret) <= raw.get("entropy", 0) + 0.1:
        return False
    for each in (*raw.get("allowlists", ()), _allowed()):
        target = match if each.get("regexTarget") == "match" else secret
        if any(_compiled(one).search(target) for one in each.get("regexes", ())):
            return False
        if any(word.encode() in secret.lower() for word in each.get("stopwords", ())):
            return False
    return True


@cache
def _compiled(expression: str) -> Any:  # noqa: ANN401 - RE2's class
    options = cast("Any", re2).Options()
    options.log_errors = False
    return cast("Any", re2).compile(expression.encode(), options)


@cache
def _tree(expression: str) -> Any:  # noqa: ANN401 - the parser's
    return parser.parse(
        _scoped(re.sub(r"\(\?P<\w+>", "(", expression)).replace(r"\z", r"\Z").replace("[:alnum:]", r"\da-zA-Z")
    )


def _scoped(expression: str) -> str:
    """RE2's `(?i)` holds to the end of its group; Python's parser wants it to be a group."""
    out: list[str] = []
    closing = [0]
    at, in_set = 0, False
    while at < len(expression):
        if expression[at] == "\\":
            out.append(expression[at : at + 2])
            at += 2
            continue
        if in_set:
            in_set = expression[at] != "]" or expression[at - 1] == "["
        elif expression.startswith("(?i)", at):
            out.append("(?i:")
            closing[-1] += 1
            at += 4
            continue
        elif expression[at] == "[":
            in_set = True
        elif expression[at] == "(":
            closing.append(0)
        elif expression[at] == ")":
            out.append(")" * closing.pop())
        out.append(expression[at])
        at += 1
    return "".join(out) + ")" * closing[0]


def _made(tree: Any, random: Random) -> str:  # noqa: ANN401 - the parser's
    return "".join(_one(code, value, random) for code, value in tree)


def _one(code: Any, value: Any, random: Random) -> str:  # noqa: ANN401, PLR0911 - one case for each kind of node
    match code:
        case op.LITERAL:
            return chr(value)
        case op.NOT_LITERAL:
            return random.choice([c for c in _LETTERS if c != chr(value)])
        case op.ANY:
            return random.choice(_LETTERS)
        case op.IN:
            return random.choice(_members(value))
        case op.BRANCH:
            return _made(random.choice(value[1]), random)
        case op.SUBPATTERN:
            return _made(value[3], random)
        case op.MAX_REPEAT | op.MIN_REPEAT:
            least, most, inner = value
            count = random.randint(least, min(int(most), least + 3, max(least, int(most))))
            return "".join(_made(inner, random) for _ in range(count))
        case op.AT:
            return ""
        case _:
            raise AssertionError(f"no text can be made for {code}")


def _members(value: Any) -> list[str]:  # noqa: ANN401 - the parser's
    out: list[str] = []
    negated = False
    for code, what in value:
        if code is op.NEGATE:
            negated = True
        elif code is op.LITERAL:
            out.append(chr(what))
        elif code is op.RANGE:
            out += [chr(c) for c in range(what[0], what[1] + 1)]
        elif code is op.CATEGORY:
            out += _category(what)
    if negated:
        return [c for c in _LETTERS if c not in out] or [_SPACE]
    letters = [c for c in out if c in _LETTERS]
    return letters if len(letters) > 8 else out


def _category(what: Any) -> list[str]:  # noqa: ANN401 - the parser's
    match what:
        case op.CATEGORY_DIGIT:
            return list("0123456789")
        case op.CATEGORY_WORD:
            return [*_LETTERS, "_"]
        case op.CATEGORY_SPACE:
            return [_SPACE]
        case _:
            return list(_LETTERS)


def every() -> set[str]:
    """All rules of the set, also those without an expression."""
    return {rule["id"] for rule in tomllib.loads(RULES.read_text())["rules"]}
