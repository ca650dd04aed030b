"""Types and bounds of request parameters, as the OpenAPI document shows them, and checks that bounds cannot express.

Names, IDs, labels and URLs may contain any text except control characters, which would get into logs and terminals.
Text that looks like a path (`../`) or runs right to left is ordinary data, because no parameter becomes a path or a
header. Metadata that only describes a payload is accepted in any form and adjusted to its bounds
(`core/metadata_bounds.py`). A malformed parameter on which the service acts is refused. Durations are whole seconds,
`30m`, `7d` or `forever`.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from coatcheck.core.artifact import COMMAND_CHARS, Kind
from coatcheck.core.errors import invalid_request
from coatcheck.core.ids import EXAMPLE_ID, ID_LENGTH
from coatcheck.core.keys import MAX_PAGE
from coatcheck.core.metadata_bounds import (
    LABEL_CHARS,
    MAX_LABELS,
    MAX_STATUS,
    MEDIA_TYPE_CHARS,
    MIN_STATUS,
    TITLE_CHARS,
    TOOL_NAME_CHARS,
    URL_CHARS,
    adjust_metadata,
)
from coatcheck.core.policies.policy import MAX_VALUE_CHARS
from coatcheck.core.search.fold import MAX_DOMAIN_CHARS, MAX_DOMAINS
from coatcheck_client.contract.answers import Notice
from coatcheck_client.contract.identifiers import CALL_ID_CHARS, CONTROL, SESSION_CHARS

MAX_SECONDS = 10 * 365 * 86_400
"""Maximum duration: ten years. Anything longer must be written as `forever`."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""Seconds of each unit. Digits without a unit are seconds."""
_SHAPE = re.compile(r"([0-9]{1,10})([smhdw]?)", re.ASCII)
"""Matches digits and a unit. MAX_SECONDS has nine digits, so any number of more than ten digits is out of bounds."""
FOR_EVER = frozenset({"forever", "null"})
"""Texts for a duration without end, as query strings and forms cannot contain null."""


def seconds(value: int | str | None, name: str) -> int | None:
    """Returns a duration in seconds; None means forever.

    Args:
        value: whole seconds, or digits with a unit (`s`, `m`, `h`, `d`, `w`), or `forever`, or None.
        name: the field's name, for errors.

    Raises:
        CoatcheckError: `invalid_request` if the duration is malformed, not positive, or longer than ten years.
    """
    if value is None or value in FOR_EVER:
        return None
    if isinstance(value, str):
        shape = _SHAPE.fullmatch(value)
        # A malformed text becomes 0, which is out of bounds.
        count = int(shape[1]) * _UNITS[shape[2]] if shape else 0
    else:
        count = value
    if 1 <= count <= MAX_SECONDS:
        return count
    raise invalid_request(
        f'\'{name}\' must be 1 to {MAX_SECONDS} seconds, or text like "30m", "12h", "7d", or null (no end).', field=name
    )


def seconds_or_unset(value: int | str | None | UnsetType, name: str) -> int | None | UnsetType:
    """Returns a duration in seconds; None means forever, UNSET that the caller left it out. See `seconds`."""
    return UNSET if isinstance(value, UnsetType) else seconds(value, name)


def life(value: int | str | None, name: str) -> timedelta | None:
    """Returns a duration as a timedelta; None means forever. See `seconds`."""
    count = seconds(value, name)
    return None if count is None else timedelta(seconds=count)


PLAIN = {"pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$"}
"""Schema of text without control characters, for the OpenAPI document only. `plain` enforces it, with a better
message."""
DURATION = "Whole seconds (1 to 315360000), or text with a unit such as `30m`, `12h`, `7d`, `4w`, or `forever`"


def _plain(most: int, description: str, example: str) -> Meta:
    """Returns the schema of text of 1 to `most` characters without control characters."""
    return Meta(min_length=1, max_length=most, description=description, examples=[example], extra_json_schema=PLAIN)


def _describing(description: str, example: object, **schema: object) -> Meta:
    """Returns the schema of metadata that only describes a payload. Other values are accepted, too, and adjusted."""
    adjusted = f"{description} Adjusted if it is longer or malformed, with the warning `metadata_adjusted`."
    return Meta(description=adjusted, examples=[example], extra_json_schema=schema)


def _describing_text(description: str, example: str, most: int, **schema: object) -> Meta:
    return _describing(description, example, type="string", minLength=1, maxLength=most, **schema)


MediaType = Annotated[Any, _describing_text("Media type of the payload.", "text/html", MEDIA_TYPE_CHARS)]
ToolLabel = Annotated[Any, _describing_text("Tool that produced the payload.", "bash", TOOL_NAME_CHARS, **PLAIN)]
CallId = Annotated[
    Any,
    _describing_text(
        "ID of the tool call that produced the payload; part of the artifact's identity.",
        "call_8f2a",
        CALL_ID_CHARS,
        **PLAIN,
    ),
]
KindLabel = Annotated[
    Any,
    _describing(
        "What the payload is, if the caller knows better than recognition.",
        min(kind.value for kind in Kind),
        type="string",
        enum=[kind.value for kind in Kind],
    ),
]
ToolName = Annotated[str, _plain(TOOL_NAME_CHARS, "Tool that produced the payload.", "bash")]
Session = Annotated[
    str, _plain(SESSION_CHARS, "Conversation, run or thread; part of the artifact's identity.", "run-42")
]
Command = Annotated[
    Any,
    _describing_text(
        "Command that was run, or a short form of the tool's arguments.", "pytest -q tests", COMMAND_CHARS
    ),
]
CompareTo = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=ID_LENGTH,
        description="Artifact to compare with: an ID, or `previous` for the latest artifact with the same "
        "session, tool name and command among the last 1,000 stored in the session; if there is "
        "none, nothing is compared. Decided when the artifact is created, and never changed.",
        examples=["previous"],
    ),
]
Tools = Annotated[
    Literal["read_artifact", "none"],
    Meta(description="Which tool the model has: with `none`, the card does not print calls for reading further."),
]
UrlLabel = Annotated[
    Any, _describing_text("Where the payload came from.", "https://example.org/page", URL_CHARS, **PLAIN)
]
Url = Annotated[str, _plain(URL_CHARS, "Where the payload came from.", "https://example.org/page")]
Status = Annotated[
    int, Meta(ge=MIN_STATUS, le=MAX_STATUS, description="HTTP status with which the page came.", examples=[404])
]
FinalUrl = Annotated[
    str, _plain(URL_CHARS, "Where redirects led from `url`: `http` or `https`.", "https://example.org/login?next=page")
]
ContentType = Annotated[
    str,
    _plain(
        MEDIA_TYPE_CHARS,
        "What the page's server called its content, of which the payload may be a conversion.",
        "application/pdf",
    ),
]
FetchedAt = Annotated[
    datetime,
    Meta(tz=True, description="When the page was fetched, not in the future.", examples=["2026-01-31T12:00:00Z"]),
]
Title = Annotated[Any, _describing_text("Title of the payload.", "build.log", TITLE_CHARS)]
Label = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS, extra_json_schema=PLAIN)]
Labels = Annotated[
    tuple[Label, ...],
    Meta(
        max_length=MAX_LABELS, description="Labels by which to find the artifact again.", examples=[["ci", "nightly"]]
    ),
]
LabelList = Annotated[
    Any,
    _describing(
        "Labels by which to find the artifact again.",
        ["ci", "nightly"],
        type="array",
        maxItems=MAX_LABELS,
        items={"type": "string", "minLength": 1, "maxLength": LABEL_CHARS, **PLAIN},
    ),
]
Query = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4000,
        description="What the agent was looking for; excerpts are chosen by it.",
        examples=["why did the build fail"],
    ),
]
CardTokens = Annotated[
    int, Meta(ge=64, le=8192, description="Hard budget of the card, in tokens of o200k_base.", examples=[600])
]
InlineTokens = Annotated[
    int,
    Meta(
        ge=0,
        le=100_000,
        description="Payloads up to this many tokens are returned unchanged; 0 makes a card of every payload.",
    ),
]
_Seconds = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_SECONDS})]
"""A duration as a number. The bounds are only in the schema, because `seconds` enforces them with a better message."""
_Duration = Annotated[str, Meta(extra_json_schema={"pattern": "^([0-9]{1,10}[smhdw]?|forever)$"})]
"""A duration as text. The pattern is only in the schema, because `seconds` enforces it with a better message."""
Ttl = Annotated[
    _Seconds | _Duration | None,
    Meta(description=f"Time to live from creation. {DURATION}; null: forever.", examples=["7d"]),
]
IdleTtl = Annotated[
    _Seconds | _Duration | None,
    Meta(
        description=f"Time without a read after which it expires. {DURATION}; null: no idle expiry.", examples=["12h"]
    ),
]
Pin = Annotated[bool, Meta(description="Suspend expiry.")]
Oversize = Annotated[
    Literal["reject", "keep_ends"],
    Meta(
        description="A payload over the limit is refused, or only its head and tail are kept and the middle is counted."
    ),
]
Id = Annotated[str, Meta(pattern="^art_[0-9]{18}$", description="Artifact ID.", examples=[EXAMPLE_ID])]
TextTokens = Annotated[int, Meta(ge=0, description="Tokens of `text` in o200k_base.", examples=[312])]
Text = Annotated[str, Meta(description="Exactly what to put into the tool result.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Maximum number of items on a page.")]
Cursor = Annotated[str, Meta(description="`next` of the previous page.")]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_VALUE_CHARS, pattern="^[^\\u0000]*$")]
"""A name to look for. PostgreSQL takes no text with U+0000."""
MAX_SEQ: Final = 2**63 - 1
"""Maximum sequence number of a row: the largest integer that the databases can store."""
NamespaceName = Annotated[
    str,
    Meta(
        pattern="^[a-z0-9][a-z0-9_-]{0,62}$",
        description="A namespace's name: 1 to 63 lower-case letters, digits, `-` and `_`.",
        examples=["team-a"],
    ),
]
Namespace = Annotated[NamespaceName, Meta(description="The namespace. Default: the key's own.")]
OneNamespace = Annotated[
    NamespaceName, Meta(description="The namespace. Default: the key's own; for a key of `*`: all of them.")
]
AnyNamespace = Annotated[
    str,
    Meta(
        pattern="^([a-z0-9][a-z0-9_-]{0,62}|\\*)$",
        description="The namespace. Default: the key's own.",
        examples=["team-a"],
    ),
]
DomainNames = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=MAX_DOMAIN_CHARS)], ...], Meta(max_length=MAX_DOMAINS)
]


def plain(value: str | None, name: str) -> str | None:
    """Returns a text unchanged, after checking it for control characters and line separators.

    Raises:
        CoatcheckError: `invalid_request` if the text contains one.
    """
    if value is not None and (match := CONTROL.search(value)):
        raise invalid_request(
            f"'{name}' contains a control character (U+{ord(match[0]):04X}) at position {match.start()}.", field=name
        )
    return value


def check_labels(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns labels without duplicates, in the given order.

    Raises:
        CoatcheckError: `invalid_request` if a label has a control character.
    """
    for label in labels:
        plain(label, "labels")
    return tuple(dict.fromkeys(labels))


def describe(metadata: Mapping[str, object]) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """Returns descriptive metadata adjusted to its bounds, and a warning if any of it had to be changed."""
    adjusted, changes = adjust_metadata(metadata)
    return adjusted, (Notice("metadata_adjusted", f"{'; '.join(changes)}."),) if changes else ()
