"""The service's own rules, for secrets of no particular provider, which a rule set for source files leaves out.

They cover credentials in URLs, authorization headers, keys in headers, tokens in query strings, keys of this service
and of model providers, and values whose name says that they are secret. Only the value is masked, not the name. Private
keys are found by their lines (`filler.py`).
"""

from typing import Final

from msgspec import Struct

_PLACEHOLDERS: Final = (
    r"(?i)^(?:user(?:name)?|(?:pserver:)?anon(?:cvs|ymous)?|guest|pass(?:word|wd)?|pwd|secret|token|changeme|example|test|your[\w.-]*|my[_-]\w+|x+|\*+|\.+)$",
    r"^(?:\$\{?[\w.:-]+\}?|%\w+%|\{\{?[^{}]*\}?\}|\{[^{}]*|<[^<>]*>?|\[[^\[\]]*\]?|%s|%\(\w+\)s)$",
)
"""Match placeholders that documentation uses in place of secrets."""
_WORDS: Final = r"^[a-zA-Z_.-]*$"
"""Matches text without a digit, which is a name rather than a key."""
_WORD: Final = r"\.?(?:v?\d{1,4}|[a-zA-Z]+\d{0,3})(?:[-_.](?:v?\d{1,4}|[a-zA-Z]+\d{0,3}))*"
_STAND_INS: Final = (
    "test|foo|bar|baz|dummy|fake|mock|sample|example|default|change.?me|my|your|the|an?|some|new|old|none|null|nil"
)
_NOUNS: Final = (
    r"pass\w*|pwd|secrets?|tokens?|keys?|creds?|auth|user|config|env|value|params?|args?|opts?|name|data|url|hash"
)
_REFERENCES: Final = (
    # ${VAR}, $(command), !Ref, %s, {{ value }}, an option, a symbol, ***
    r"^(?:\$(?:[{(\w]|$)|![A-Za-z]+$|%[\w(]|[{\[]|[*@:~+,.#|=-]{1,2}[a-z_.]*$|--?[a-z]|:[a-z_]+\d*$)",
    r"^[xX*.#_\x80-\xff-]{3}",
    r"^[A-Za-z_][\w.]*[(\[{]|\$[{(]|\{\{|\*{3}|\.\.\.",  # a call, an element, a template
    r"^(?:[\w-]+\.)+[A-Za-z_][\w-]{0,24}$",  # settings.DB_PASSWORD, host names, files
    rf"^(?:[~.]{{0,2}}/)?(?:{_WORD}/)+(?:{_WORD})?$|^[~.]{{0,2}}/[a-z]{{2,12}}/[\w./-]*$",  # a path
    r"(?i)^(?:https?|file|arn|env|vault|secret|projects|ssm|sha\d+|op|ref|urn|kms|string|int|bool|number)(?::|/|\d*$)",
    rf"(?i)^(?:{_STAND_INS})(?:[_. -]?(?:{_STAND_INS}|super|very|api|db|admin|string|here|me|id|{_NOUNS}|\d+))*$",
    rf"(?i)^(?:(?:db|api|admin|app|root)[_-]?)?(?:{_NOUNS}|hidden|redacted)(?:[_. -]?(?:{_NOUNS}|\d{{1,6}}))*!?$",
    rf"^(?:[a-z0-9]+_)*(?:{_NOUNS})(?:_[a-z0-9]+)*$|^(?:[A-Z][A-Z0-9]*_)+[A-Z0-9]+$",  # the name of a variable
    r"(?:Key|Token|Secret|Password)s?$",  # a type
    r"\[\^|\(\?|^[A-Za-z]+\?$|^eyJhbGciOi[\w-]*$",  # an expression, the end of a question, a JWT's header alone
)
"""Match values that follow the name of a secret but are no secret: references, placeholders, names, types."""
_LISTED: Final = rf"[\"'][ \t]*,[ \t]*[\"']{_WORD}[\"']$"
"""Matches two words of a list, of which the first happens to be the name of a secret."""
_FILLED: Final = r"(?i)^(?:0+|1234567?8?9?0?|x{4,}.*|.*x{6,}.*|.*\*{3,}.*)$"
_NAME_LIKE: Final = rf"^{_WORD}(?:[/:]{_WORD})*$"
"""Matches words and small numbers, which are the name of something."""
_REQUEST: Final = r"(?i)token[^a-z0-9]{1,16}[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-"
"""Matches a token that is a UUID: it identifies a request, and is no secret."""
_POSITIONS: Final = (
    r"(?i)(?:next|page|continu\w*|sync|start|cancel\w*|cursor|verif\w*|purchase|pagination|resume|eos|bos|pad|unk|sep|"
    r"cls|mask|sub|public|csrf|xsrf)[\w-]{0,12}$|::\w*$|\d:$"
)
"""Matches the beginning of a name whose token or key is no secret, but a position, a word, a type or public."""
_PHRASE_NAME: Final = (
    r"(?:pass(?:w(?:or)?d|phrase|code)|pwd|identified(?:[ \t]+with[ \t]+\w+)?[ \t]+by|[a-z0-9][_-]pass|(?-i:[a-z]Pass))"
)
_KEY_NAME: Final = (
    r"(?:(?:secret|api|access|account|private|signing|encryption|master|shared|subscription|license|storage|auth|client|"
    r"session|service|app|deploy|admin)[_-]?(?:access[_-]?)?key|token|"
    r"secret(?:[_-]?(?:access[_-]?key|key[_-]?base|value|token))?)"
)
_END: Final = r"(?:[_-]?(?:\d{1,2}|prod|production|dev|staging|live|value|b64|base64))?"
_QUOTES: Final = r"(?:[\"'\x60]|\\+(?:u00[0-9a-f]{2})?|&(?:quot|apos|#x?[0-9]{2});){0,12}"
_BETWEEN: Final = (
    rf"{_QUOTES}(?:[ \t]*(?::[ \t]*(?:&?str|string)[ \t]*)?(?:=>|:=|\+=|==|=|:|>|\||\xe2\x94\x82)[ \t]*"
    rf"|[\"'\\][ \t]*,[ \t]*[\"'\\]|[ \t]+[\"'\\]|\\*\t|\\+t"
    rf"|(?:\s|\\n|,){{1,40}}{_QUOTES}value{_QUOTES}[ \t]*[:=>][ \t]*)(?:!(?:binary|str)[ \t]+)?{_QUOTES}"
)
"""Matches what separates a name from its value in environments, YAML, JSON, TOML, INI, XML, tables, shells, code,
SQL."""
_INSIDE: Final = r"[^\x00-\x20\x7f\"'\x60<>\\,;&]"
_PLAIN: Final = rf"{_INSIDE[:-1]}()\[\]{{}}|]"
_LAST: Final = r"[^\x00-\x20\x7f\"'\x60<>\\,;&)\]}.:|]"
_STOP: Final = r"(?:[\x00-\x20\x7f\"'\x60<>\\,;&)\]}.:|]|$)"
_OPTION: Final = r"(?:--[\w-]{0,30}|login\s{1,9}\S{1,64}\s{1,9})"
"""Matches what precedes a name with only a blank before its value: an option of a command, a login of `.netrc`."""
_VARIABLE: Final = r"(?-i:PASS(?:WORD|WD|PHRASE)?=)"


def _make_name_pattern(name: str) -> str:
    return rf"(?i)(?:{name}{_END}{_BETWEEN}|{_OPTION}{name}[ \t]{_QUOTES})"


_ODD: Final = "[0-9!@#%^*?~]"
NAMED_VALUE: Final = (
    rf"{_make_name_pattern(f'(?:{_PHRASE_NAME}|{_KEY_NAME})')}{_INSIDE}*?{_ODD}|{_VARIABLE}{_QUOTES}{_INSIDE}{{8}}"
)
"""Matches wherever a rule with `by_name` may match, with few states for RE2."""


def _value(least: int, inside: str = _INSIDE) -> str:
    """Returns an expression for a value of at least `least` characters.

    Text after `&` is part of the value, unless it is another name or an entity.
    """
    value = rf"{inside}{{{least - 1},511}}{_LAST}"
    return rf"(?:({value}&[^\s\"'\x60<>\\,;&=]{{0,64}}{_LAST})(?:[\s\"'\x60]|$)|({value}){_STOP})"


class OwnRule(Struct, frozen=True):
    """One of the service's own rules. The secret is the longest group of a match."""

    name: str
    expression: str
    entropy: float
    allowed: tuple[str, ...]
    keywords: tuple[str, ...] = ()
    """Words in lower case: every match contains at least one of them. Empty: no such words are known."""
    unless_after: str = ""
    """Expression that is searched in the bytes before a match; if it is found, the match is no secret. Empty: none."""
    unless: str = ""
    """Expression that is searched in a match; if it is found, the match is no secret. Empty: none."""
    needs: tuple[str, ...] = ()
    """Expressions that must all be found in a secret."""
    by_name: bool = False
    """Whether the secret is recognised only by the name before it; see NAMED_VALUE."""


OWN: Final = (
    OwnRule(
        "private-key",  # found by its lines; listed here for its name and number
        r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----",
        0,
        (r".",),
        ("private key",),
    ),
    OwnRule(
        "password-variable",
        rf"(?i){_VARIABLE}{_QUOTES}{_value(8)}",
        2.0,
        (
            *_PLACEHOLDERS,
            *_REFERENCES,
            _FILLED,
            r"^(?i)(?:my)?(?:postgres|mysql|redis|secret|super|root|admin|pass|word)*$",
        ),
        ("pass",),
        by_name=True,
    ),
    OwnRule(
        "password",
        rf"{_make_name_pattern(_PHRASE_NAME)}{_value(6)}",
        2.0,
        (*_PLACEHOLDERS, *_REFERENCES, _FILLED),
        ("pass", "pwd", "identified"),
        unless=_LISTED,
        needs=(_ODD, r"[A-Za-z]|.{10}"),
        by_name=True,
    ),
    OwnRule(
        "secret-value",
        rf"{_make_name_pattern(_KEY_NAME)}{_value(16, _PLAIN)}",
        3.2,
        (_WORDS, *_PLACEHOLDERS, *_REFERENCES, _FILLED, _NAME_LIKE),
        ("key", "secret", "token"),
        _POSITIONS,
        _REQUEST,
        needs=(r"[0-9]", r"[A-Za-z]"),
        by_name=True,
    ),
    OwnRule("coatcheck-key", r"\b(ck_(?:live|test)_[0-9A-Za-z]{6,24}_[0-9A-Za-z]{20,80})", 3.0, (), ("ck_",)),
    OwnRule(
        "model-provider-key",
        r"\b(sk-(?:ant-[a-z]{2,10}\d\d|or-v\d|proj|svcacct|admin|None)-[\w-]{20,300}|sk-[A-Za-z0-9]{32,128}"
        r"|(?:xai-|gsk_|pplx-|csk-|nvapi-|jina_|pa-)[A-Za-z0-9_-]{40,200}"
        r"|tvly-(?:dev-|prod-)?[A-Za-z0-9]{22,100}|r8_[A-Za-z0-9]{37}\b)",
        3.5,
        (r"^[^0-9]*$", _NAME_LIKE),
        ("sk-", "xai-", "gsk_", "pplx-", "csk-", "nvapi-", "jina_", "pa-", "tvly-", "r8_"),
    ),
    OwnRule(
        "url-credentials",
        r"(?i)\b[a-z][a-z0-9+.-]{1,30}:(?:\\?/){2}"
        r"(?:[^\s/?#@:\"'<>\\`]{0,128}:([^\s/?#@\"'<>\\`]{1,256})|([\w.~%+-]{20,256})(?::x-oauth-basic)?)@",
        0,
        (*_PLACEHOLDERS, r"^(?:.{1,2}|tiger)$"),
    ),
    OwnRule(
        "authorization-header",
        r"(?i)\b(?:proxy-)?authorization\b[\"'\\]{0,3}[ \t]*[:=,][ \t]*[\"'\\]{0,3}"
        r"(?:(?:basic|negotiate|bearer|(?:api-?)?token|apikey|api-key)(?:[ \t]|\\+t)+([\w=~@.+/:-]{8,})"
        r"|([\w=~@.+/-]{16,}))",
        2.5,
        (r"^[a-zA-Z_.-]{1,24}$|^(?:[a-zA-Z_]{1,24}\.)+[a-zA-Z_]{1,24}$|^[A-Z]+(?:_[A-Z]+)+\.*$", *_PLACEHOLDERS),
        ("authorization",),
    ),
    OwnRule(
        "header-key",
        r"(?i)\b(?:x-(?:[a-z]+-){0,3}(?:api-?key|token|secret|key)|api-?key|private-token)"
        r"[\"'\\]{0,3}[ \t]*[:=][ \t]*[\"'\\]{0,3}([\w=~@.+/-]{20,512})",
        3.0,
        (_WORDS, *_PLACEHOLDERS, *_REFERENCES),
        ("key", "token", "secret"),
    ),
    OwnRule(
        "url-token",
        r"(?i)[?&;](?:amp;)?[a-z_.-]{0,40}(?:token|api_?-?key|secret|signature|passw(?:or)?d|\bsig|auth)="
        r"([\w%.~+/-]{12,}={0,2})",
        3.0,
        (_WORDS, *_PLACEHOLDERS),
        ("token", "key", "secret", "sig", "passw", "auth"),
    ),
)
