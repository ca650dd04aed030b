r"""Makes text from outside safe for models: nothing in it is hidden, and no tags look like those around instructions.

`inert` changes only what could mislead. Control characters become pictures of themselves, colour codes are removed,
invisible and bidirectional characters become U+FFFD, and the tags of chat templates and tool protocols lose their ASCII
bracket. It never judges what a text says, and it never changes stored bytes.

Text from outside cannot imitate the service's own lines. Every line that the service writes around such text begins
with MARK, and `inert` leaves no MARK in its result.
"""

import re
from typing import Final

MARK: Final = "¦"
"""Begins every line of the service between and after excerpts. It is one token in o200k_base, and rare in any text."""

_STAND_IN: Final = "|"
"""Replaces MARK in the text of a payload."""

_GONE: Final = "\ufffd"
"""Replaces a character that is hidden, or that has no picture."""

# ---------------------------------------------------------------------------------------------- hidden characters

_DROPPED: Final = re.compile(r"\x1b\[[0-9;:]*[mK]|[\u00ad\ufeff]")
"""Matches colours, erase-line, soft hyphens and byte order marks. They contain no words, cost up to 6 tokens each, and
a replacement would break up words that a reader sees as a whole."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]|\r(?!\n)")

_FLAGS: Final = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in code) + "\U000e007f" for code in ("gbeng", "gbsct", "gbwls")
)

HIDDEN_SET: Final = (
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Invisible characters, as the members of a character class."""
_RTL: Final = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
"""Characters of scripts that run from right to left, as the members of a character class."""
_HIDDEN: Final = re.compile(
    rf"({_FLAGS})"
    r"|((?<=[\u0300-\u200a\u2010-\u2027\u2030-\ufdff\ufe0f\U00010000-\U0001faff])[\u200b-\u200d]"
    rf"(?![{HIDDEN_SET}]))"  # joiners and word breaks inside the scripts and emoji that need them
    rf"|((?<=[{_RTL}])[\u200e\u200f\u061c](?![{HIDDEN_SET}])|[\u200e\u200f](?!\u061c)(?=[{_RTL}]))"
    r"|((?<=[#*0-9\u00a9\u00ae\u2010-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
    r"|(?<=[\u1820-\u18aa])[\u180b-\u180e]|(?<=[\u3400-\u9fff])[\ufe00-\ufe02\U000e0100-\U000e01ef])"
    rf"|[{HIDDEN_SET}]"
)
"""Groups 1 to 4 match legitimate uses, which stay. All other hidden characters are replaced."""

# ------------------------------------------------------------------------------------------------------ envelopes

_NAMES: Final = (
    r"function_?calls?|function_?results?|function_?responses?|tool_?calls?|tool_?uses?|tool_?results?|"
    r"tool_?responses?|tool_?outputs?|system[-_]?reminder|system[-_]?prompt|system[-_]?message|system|assistant|human|"
    r"thinking|think|scratchpad|start_of_turn|end_of_turn|start_of_image|bos|eos|invoke|"
    r"parameter(?=\s+name=\"[^\"<>]*\">)|(?<=:)parameter"
)
_TAG: Final = re.compile(
    r"<(?=[|\uff5c][^\s<>|\uff5c]{1,80}(?:[|\uff5c]>|[|\uff5c]?\Z)"  # <|im_start|> and its full-width variants
    rf"|\s{{0,4}}/?\s{{0,4}}(?:\w{{1,16}}:)?(?:{_NAMES})(?:\s[^<>]{{0,300}})?(?:/?>|\Z)"
    r"|/?(?:unk|pad|(?-i:s))(?:>|\Z)"  # these never have attributes: `i < s && j > t` is code
    r"|</?SYS>>|(?<=<<)/?SYS>>)",
    re.IGNORECASE,
)
"""Also matches an incomplete tag at the end of the text, where an excerpt may be cut: no later text may complete it."""
_BRACKET: Final = re.compile(r"\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|TOOL_CONTENT)\])")
_TURN: Final = re.compile(
    r"((?:\A|(?:\r?\n|\u2424)[ \t]*(?:\r?\n|\u2424))[ \t]*(?:#{1,4} ?)?\**(?:Human|Assistant|System|User)\**):"
    r"|((?:\A|\n)#{2,4} ?(?:Instruction|Response|Input)):",
)
_OWN: Final = re.compile(r"(?:\A|(?<=\n))([ \t]*)([\[(])(?=art_[0-9]|Lines [0-9]+-[0-9]+ of |End of art_)")
_LIKE: Final = re.compile(
    "((?:\\A|\n)[ \t]*)[\u00a6\uffe4\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f\u2223\u01c0\u205e\ufe19\u2758]"
    "(?=[ \u00a0]*(?:\u2026|lines? [0-9]|left out:|verbatim text |Next: |End[. ]|[0-9]+ bytes never|"
    "It could not be|Not stored|Same as art_))"
)
"""Matches a character that looks like MARK and begins a line that looks like one of the service's."""
_SPEAKERS: Final = ("Human", "Assistant", "System", "User", "Instruction:", "Response:", "Input:")
"""Every match of _TURN contains one of these words. To search for words is far cheaper than to try a pattern at every
line."""
_PLAIN: Final = bytes([0x09, 0x0A, *range(0x20, 0x7F)])
"""ASCII characters that are shown as they are. A CR before an LF is shown as it is, too."""
_SHORT: Final = 1_024
"""Characters below which a text is first compared with _HARMLESS."""
_HARMLESS: Final = re.compile(r"[^\x00-\x1f\x7f-\U0010ffff<\[(:]*")
"""Matches a single line without any character with which a rule below begins."""
_ODD: Final = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u2028\u2029\ud800-\udfff\ufeff{MARK}{HIDDEN_SET}]")


def inert(text: str) -> str:
    """Returns a text as a model may read it.

    Deterministic and idempotent. Line ends stay where they are. Colour codes, soft hyphens and byte order marks are
    dropped, because they have neither width nor words. Every other change replaces one character by one character.
    """
    if len(text) < _SHORT and _HARMLESS.fullmatch(text):
        return text
    if _odd(text):
        text = _CONTROL.sub(_picture, _DROPPED.sub("", text))
        if not text.isascii():
            text = _exposed(text).replace(MARK, _STAND_IN)
    if not text.isascii():
        text = _LIKE.sub(rf"\1{_STAND_IN}", text)
    if "<" in text:
        text = _TAG.sub("\uff1c", text)
    if "[" in text:
        text = _BRACKET.sub("\uff3b", text)
    if ":" in text and any(map(text.__contains__, _SPEAKERS)):
        text = _TURN.sub(_full_colon, text)
    if "art_" in text or "Lines " in text:
        text = _OWN.sub(_own, text)
    return text


def _odd(text: str) -> bool:
    """Returns whether a text contains anything but plain characters: controls, hidden characters, colours or MARK."""
    if text.isascii():
        rest = text.encode("ascii").translate(None, _PLAIN)
        return bool(rest) and (rest.strip(b"\r") != b"" or len(rest) != text.count("\r\n"))
    return _ODD.search(text.replace("\r\n", "\n")) is not None


def one_line(text: str) -> str:
    """Returns a text inert and on one line, with every run of whitespace as one space. For titles, names and hints."""
    return inert(" ".join(text.split()))


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < ord(" "):
        return chr(0x2400 + code)
    if match.group() == "\x7f":
        return "\u2421"
    return "\u2424" if code in {0x85, 0x2028, 0x2029} else _GONE


def _exposed(text: str) -> str:
    """Returns a text with hidden characters made visible. Directly after a replaced one, no hidden character stays."""
    shown_until = -1

    def show(match: re.Match[str]) -> str:
        nonlocal shown_until
        if match.lastindex and match.start() != shown_until:
            return match.group()
        shown_until = match.end()
        return _GONE

    return _HIDDEN.sub(show, text)


def _full_colon(match: re.Match[str]) -> str:
    return f"{match.group(1) or match.group(2)}\uff1a"


def _own(match: re.Match[str]) -> str:
    return match.group(1) + ("\uff3b" if match.group(2) == "[" else "\uff08")
