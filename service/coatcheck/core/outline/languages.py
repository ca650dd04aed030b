"""Patterns of definitions at the beginning of a line, by language.

These are line patterns, in the syntax that RE2 and `re` share, and not parsers. Source in an artifact is often a piece
of a file, broken, or numbered by the tool that printed it; a line pattern finds what is there, in linear time. Python's
own parser can be made to crash the process, as its documentation says, and parsers for a dozen languages are native
code by a dozen authors. A pattern occasionally mistakes a call for a definition, which an outline tolerates.
"""

import re
from typing import Final

from coatcheck.core.text.scan import BlockPattern

PREFIX: Final = (
    r"(?:[ ]{0,7}(?P<counted>[0-9]{1,7})(?:[:|][ ]?|\t|→)"
    r"|(?P<path>[^\s:\"'(){},;=]+)[:-](?P<number>[0-9]{1,7})[:-])?"
)
"""Matches what `cat -n`, editors and grep put before a line: its number, or a path and its number."""


def _either(*patterns: str) -> str:
    return rf"^{re.sub(r'[?]P<[a-z]+>', '?:', PREFIX)}(?:{'|'.join(patterns)})"


def _any_of(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


def _before(words: str, least: str = "*") -> str:
    """Returns a pattern of any number of these words, in any order. `least` is a quantifier, such as `+`."""
    return rf"(?:{_any_of(words)} +){least}"


_IN: Final = r"[ \t]*"
_WORD: Final = r"(?:\w|[^\x00-\x7f])+"
_ARGUMENTS: Final = r"\([^)]{0,300}\) *(?::[^=]{0,80})?"
_VALUE: Final = rf"(?:function\b|class\b|{_ARGUMENTS}=>|[\w$]+ *=>)"
_MORE_THAN_A_NAME: Final = r"(?:[^\s\w$]|[\w$]+ *=>|[\w$. ]+[^\s\w$.;=])"
"""Matches what a module exports by default, or as CommonJS does, unless that is only a name defined elsewhere."""
_MEMBER_WORDS: Final = "async static get set public private protected readonly override"
_SCRIPT: Final = (
    rf"{_IN}{_before('export default declare abstract async')}(?:function\*?|class|interface|enum|namespace) +[\w$]",
    rf"{_before('export declare')}type +[\w$]+ *(?:<[^=]{{0,80}}>)? *=",
    rf"{_any_of('const let var')} +[\w$]+ *(?::[^=]{{0,120}})?= *(?:async *)?{_VALUE}",
    rf"{_IN}export +(?:declare +)?{_any_of('const let var')} +[\w${{\[]",
    rf"(?:export +default +|(?:module\.)?exports(?:\.[\w$]+)* *= *){_MORE_THAN_A_NAME}",
    rf"[\w$]+(?:\.[\w$]+)+ *= *(?:async *)?{_VALUE}",
    rf"[ \t]+{_before(_MEMBER_WORDS)}[\w$#]+ ?\([^;={{}}]{{0,300}}\) *(?::[^{{;]{{1,120}})?\{{ *$",
)
_TYPE_WORDS: Final = (
    "public private protected internal static final abstract sealed partial data open inner export readonly case"
    " implicit value annotation inline override unsafe suspend operator expect actual"
)
_TYPES: Final = "class interface enum record struct object trait namespace @interface fun extension protocol func actor"
_METHOD_WORDS: Final = (
    "public private protected internal static final abstract synchronized override virtual async native sealed default"
    " new extern unsafe"
)
_INIT_WORDS: Final = "public private internal fileprivate open static override mutating convenience required"
_CURLY: Final = (
    rf"{_IN}{_before(_TYPE_WORDS)}{_any_of(_TYPES)} +[\w<`(]",
    rf"[ \t]+{_before(_METHOD_WORDS, '+')}[\w<>\[\],.?@]+(?: +[\w<>\[\],.?]+)* *\([^;=]*\{{? *$",
    r"[ \t]+[\w<>\[\],.?]+ +\w+ *\([^;=]*\) *(?:throws [^;{]{1,120})?\{ *$",
    rf"[ \t]+{_before(_METHOD_WORDS, '+')}[\w<>\[\],.?]+ +\w+(?:\([^;{{]*\))? *(?:=>|\{{ *(?:get|set|init)\b)",
    rf"[ \t]+{_before('override private protected final implicit lazy')}def +\w",
    rf"{_IN}{_before(_INIT_WORDS)}init[?!]?\(",
)
_C: Final = (
    rf"{_IN}(?:typedef +|static +)*(?:struct|class|enum|union|namespace)(?: +class)? +[\w:]+[^;()=]*\{{? *$",
    r"typedef +(?:struct|enum|union) *\{? *$",
    r"#[ \t]*define +\w+\(",
)
_TYPED: Final = r"[A-Za-z_][\w:<>,*& \t]*"
_CALLED: Final = r"[ \t*&]~?[A-Za-z_][\w:~]* *\("
_HEADER: Final = (
    rf"(?:[ \t]{{1,8}}extern +)?{_TYPED}(?:\([^()\n]{{0,80}}\)[\w*& \t]*)?{_CALLED}(?:[^\n]*[^*\s])?\s*$",
    r"[A-Za-z]\w*[a-z]\w* *\([^\n]*[,;]\s*$",
    r"typedef\b[^={]*[;(]",
)
"""Patterns of what a header declares beyond the definitions of a source file: prototypes, and new names for types."""
_BLOCKS: Final = "message service rpc enum struct exception interface"
_INTERFACE: Final = (
    rf"{_IN}{_before('extend')}{_any_of(_BLOCKS)} +[\w.]+[ \t]*(?:[({{:=]|extends\b|implements\b|$)",
    rf"{_before('extend')}{_any_of('type input union scalar')} +\w+[ \t]*(?:[{{=@]|implements\b|$)",
    rf"{_IN}(?:extend +[\w.]+ *\{{|oneof +\w+ *\{{|directive +@\w)",
)
"""Patterns of definitions in Protocol Buffers, Thrift and GraphQL."""
_SQL_WORDS: Final = "or replace temp temporary unique materialized unlogged"
_SQL_THINGS: Final = "table view function procedure trigger type schema"
_PHP_WORDS: Final = "abstract final public private protected static readonly"
_ANY_WORDS: Final = (
    "export default public private protected internal static abstract final async unsafe inline override sealed data"
    r" open pub pub\([a-z]+\)"
)
_ANY_THINGS: Final = (
    r"def class func fn fun interface trait struct enum impl module mod namespace [Ff]unction\*? object protocol record"
    " sub macro_rules! defmodule defp proc [Pp]rocedure"
)

PATTERNS: Final[dict[str, str]] = {
    "python": _either(rf"{_IN}(?:(?:async +)?def +{_WORD} *[\[(]|class +{_WORD} *[\[(:])"),
    "script": _either(*_SCRIPT),
    "go": _either(r"func +(?:\([^)]{0,200}\) *)?\w", r"type +\w"),
    "rust": _either(
        rf"{_IN}(?:pub(?:\([^)]{{0,60}}\))? +)?(?:(?:default|const|async|unsafe|extern(?: +\"[^\"]{{0,20}}\")?) +)*"
        r"(?:fn|struct|enum|trait|union|mod|type|macro_rules!) +\w",
        rf"{_IN}(?:unsafe +)?impl\b",
    ),
    "curly": _either(*_CURLY),
    "c": _either(rf"{_TYPED}{_CALLED}[^;]*$", r"[A-Za-z]\w*[a-z]\w* *\([^;]*$", *_C),
    "header": _either(*_HEADER, *_C),
    "interface": _either(*_INTERFACE),
    "ruby": _either(rf"{_IN}(?:def|class|module) +[\w:.<]"),
    "php": _either(rf"{_IN}{_before(_PHP_WORDS)}(?:function|class|interface|trait|enum|namespace) +&?[\w\\]"),
    "shell": _either(rf"{_IN}(?:function +[\w:.-]+|[\w:.-]+ *\(\)) *(?:\(\) *)?[{{(]? *$"),
    "sql": _either(rf"{_IN}(?i:create +{_before(_SQL_WORDS)}{_any_of(_SQL_THINGS)})\b"),
    "lua": _either(rf"{_IN}(?:local +)?function +[\w.:]", r"(?:local +)?[\w.]+ *= *function\b"),
    "perl": _either(rf"{_IN}package +[\w:]", rf"{_IN}sub +[\w:']+ *(?:\([^)\n]{{0,80}}\))?[^;{{#\n]*(?:[{{#].*)?$"),
    "elixir": _either(rf"{_IN}(?:defmodule|defp?|defmacrop?|defprotocol|defimpl) +[\w.:]"),
    "settings": _either(r"\[\[?[^\[\]\n]{1,120}\]\]? *$"),
    "yaml": _either(r"(?:- +)?[\w.\"'/-]{1,80}: *(?:#.*)?$"),
    "any": _either(
        rf"[ \t]{{0,12}}{_before(_ANY_WORDS, '{0,5}')}{_any_of(_ANY_THINGS)} +(?:\([^)\n]{{0,80}}\) *)?[\w$.:<]+\*?"
        r" *(?:[(<:{\[=;]|$|(?:extends|implements|for|is|where) )"
    ),
}
"""`any` is for source of unknown language; Nim marks the names that it exports with `*`."""
_BRACES: Final = _either(r"[ \t]*\}")
ENDS: Final = {
    **dict.fromkeys(("script", "go", "rust", "curly", "c", "header", "interface", "php"), _BRACES),
    "python": _either(r"[A-Za-z_@(\[{]"),
}
"""By language: a pattern of the lines that end a definition of the same indentation. Such a line begins with a closing
brace or, in Python, with code that is not indented."""
CLOSING: Final = frozenset(ENDS) - {"python"}
"""Languages in which the line that ends a definition is a part of it."""

_ENDINGS: Final[dict[str, str]] = {
    "python": "py pyi pyw pyx",
    "script": "js jsx ts tsx mjs cjs mts cts vue svelte",
    "go": "go",
    "rust": "rs",
    "curly": "java kt kts scala cs swift groovy gradle dart",
    "c": "c cc cpp cxx m mm cu",
    "header": "h hh hpp hxx",
    "interface": "proto thrift graphql graphqls gql fbs",
    "ruby": "rb rake gemspec",
    "php": "php",
    "shell": "sh bash zsh ksh",
    "sql": "sql",
    "lua": "lua",
    "perl": "pl pm",
    "elixir": "ex exs",
    "settings": "toml ini cfg conf properties",
    "yaml": "yaml yml",
}
_GREP: Final = re.compile(rb"([^\s:]{1,300}\.[A-Za-z0-9]{1,8})[:-][0-9]{1,7}[:-]")
"""Matches what grep puts before a line of a file whose name has an extension."""
_BY_ENDING: Final = {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}
_SHEBANGS: Final = {
    "python": "python",
    "node": "script",
    "bash": "shell",
    "sh": "shell",
    "ruby": "ruby",
    "perl": "perl",
}
_DIRECTIVES: Final[dict[str, str]] = {
    "c": r"^#[ \t]*(?:include[ \t]*[<\"]|ifndef[ \t]+\w+[ \t\r]*$|pragma[ \t]+once)",
    "interface": (
        r"^(?:(?:syntax|edition)[ \t]*=[ \t]*[\"'](?:proto|20)|directive[ \t]+@\w+.*[ \t]on[ \t]"
        r"|(?:extend[ \t]+)?schema[ \t]*\{|type[ \t]+(?:Query|Mutation)[ \t]*[{@])"
    ),
    "curly": r"^import[ \t]+(?:static[ \t]+)?[a-z]\w*(?:\.\w+)+(?:\.\*)?;[ \t\r]*$",
    "script": r"^(?:import|export)[ \t][^;'\"]*[ \t]from[ \t]*(?:'[^']+'|\"[^\"]+\");?[ \t\r]*$",
    "sql": (
        r"^(?:CREATE|create)[ \t](?i:[ \t]*(?:or|replace|temp|temporary|unlogged|materialized|unique)\b)*[ \t]*"
        r"(?i:table|view|function|type|index)[ \t]+[\w\"`.\[].*(?:[(;,]|\bas|\bon .*)[ \t\r]*$"
    ),
}
"""By language: a pattern of lines that only a file of this language has. `interface` is Protocol Buffers or GraphQL."""
_ANY_DIRECTIVE: Final = BlockPattern("|".join(_DIRECTIVES.values()))
_BY_DIRECTIVE: Final = {language: BlockPattern(pattern) for language, pattern in _DIRECTIVES.items()}
_GUARD: Final = re.compile(rb"#[ \t]*(?:pragma[ \t]+once|ifndef[ \t]+(\w+)[ \t\r]*\n\s*#[ \t]*define[ \t]+\1\b)")
_HEAD_BYTES: Final = 16 * 1024
"""Bytes in which a directive is searched for: it stands below the comment with the licence."""
_STATEMENTS: Final = "if for while switch catch return else elif do try using lock foreach with await yield throw new"
_NO_DEFINITION: Final = frozenset([*_STATEMENTS.split(), "delete", "static_assert"])


def language_of(names: tuple[str | None, ...], head: bytes) -> str:
    """Returns the language indicated by a file's name, a URL, the first line or a directive; `any` if nothing does."""
    grep = _GREP.match(head)
    for name in (*names, None if grep is None else grep[1].decode("utf-8", "replace")):
        plain = (name or "").partition("?")[0].partition("#")[0].rsplit("/", 1)[-1].strip().lower()
        language = _BY_ENDING.get(plain.rpartition(".")[2]) if "." in plain else None
        if language is not None:
            return language
    first = head[:100].partition(b"\n")[0].decode("latin-1")
    if first.startswith("#!"):
        words = first[2:].replace("/", " ").split()
        for word in reversed(words):
            if (plain := word.rstrip("0123456789.")) in _SHEBANGS:
                return _SHEBANGS[plain]
    return language_by_directive(head) or "any"


def language_by_directive(head: bytes) -> str | None:
    """Returns the language, such as C or SQL, of which a line near the beginning is typical; None if there is none."""
    first = head[:_HEAD_BYTES]
    line = _ANY_DIRECTIVE.find(first)
    if line is None:
        return None
    language = next(name for name, pattern in _BY_DIRECTIVE.items() if pattern.find(first, line[0]) == line)
    return "header" if language == "c" and _GUARD.match(head, line[0]) else language


def is_definition(title: str) -> bool:
    """Returns whether a line that a pattern found is really a definition, not a statement that resembles one."""
    first = title.partition("(")[0].split()
    return bool(first) and first[0] not in _NO_DEFINITION and (len(first) == 1 or first[0] not in {"case", "goto"})
