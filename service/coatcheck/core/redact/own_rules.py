"""Our own rules, for secrets that belong to no provider and that a rule set for source files leaves out.

They cover credentials in URLs, authorization headers, keys in headers and tokens in query strings. Only values are
masked. Private keys are found by their lines (`keys.py`).
"""

from typing import Final

from msgspec import Struct

_PLACEHOLDERS: Final = (
    r"(?i)^(?:user(?:name)?|(?:pserver:)?anon(?:cvs|ymous)?|guest|pass(?:word|wd)?|pwd|secret|token|changeme|example|test|your[\w.-]*|my[_-]\w+|x+|\*+|\.+)$",
    r"^(?:\$\{?[\w.:-]+\}?|%\w+%|\{\{?[^{}]*\}?\}|\{[^{}]*|<[^<>]*>?|\[[^\[\]]*\]?|%s|%\(\w+\)s)$",
)
"""Placeholders that documentation uses in place of secrets."""
_WORDS: Final = r"^[a-zA-Z_.-]*$"
"""Matches text without a digit: a name, not a key."""


class OwnRule(Struct, frozen=True):
    """One of our own rules. The secret is its longest group."""

    name: str
    expression: str
    entropy: float
    allowed: tuple[str, ...]


OWN: Final = (
    OwnRule(
        "private-key",  # found by its lines; here for its name and number
        r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----",
        0,
        (r".",),
    ),
    OwnRule(
        "url-credentials",
        r"(?i)\b[a-z][a-z0-9+.-]{1,30}:(?:\\?/){2}"
        r"(?:[^\s/?#@:\"'<>\\`]{0,128}:([^\s/?#@\"'<>\\`]{1,256})|([\w.~%+-]{20,256})(?::x-oauth-basic)?)@",
        0,
        _PLACEHOLDERS,
    ),
    OwnRule(
        "authorization-header",
        r"(?i)\b(?:proxy-)?authorization\b[\"'\\]{0,3}[ \t]*[:=,][ \t]*[\"'\\]{0,3}"
        r"(?:(?:basic|negotiate|bearer|(?:api-?)?token|apikey|api-key)(?:[ \t]|\\+t)+([\w=~@.+/:-]{8,})"
        r"|([\w=~@.+/-]{16,}))",
        2.5,
        (r"^[a-zA-Z_.-]{1,24}$", *_PLACEHOLDERS),
    ),
    OwnRule(
        "header-key",
        r"(?i)\b(?:x-(?:[a-z]+-){0,3}(?:api-?key|token|secret|key)|api-?key|private-token)"
        r"[\"'\\]{0,3}[ \t]*[:=][ \t]*[\"'\\]{0,3}([\w=~@.+/-]{20,512})",
        3.0,
        (_WORDS, *_PLACEHOLDERS),
    ),
    OwnRule(
        "url-token",
        r"(?i)[?&;](?:amp;)?[a-z_.-]{0,40}(?:token|api_?-?key|secret|signature|passw(?:or)?d|\bsig|auth)="
        r"([\w%.~+/-]{12,}={0,2})",
        3.0,
        (_WORDS, *_PLACEHOLDERS),
    ),
)
