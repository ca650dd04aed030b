"""The policy by which a caller wants a body compacted. Every size is in tokens of the plan's `Counter`.

The defaults replace only values that are certainly bulky, and nothing with which the model is still working. A policy
that contradicts itself is refused when it is used; the error names the field.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from coatcheck.core.errors import CoatcheckError, Code

Protect = Literal["turn", "step", "none"]
Media = Literal["keep", "placeholder"]

_WRITER_NAMES: Final = """
    write_file create_file write writefile write_to_file save_file new_file create
    str_replace_based_edit_tool str_replace_editor file_editor
    """
WRITERS: Final = tuple(_WRITER_NAMES.split())
"""Tools that write a whole file, by the names that agents give them. Names are compared without case and without a
host's prefix."""
WRITTEN: Final = ("content", "contents", "file_text", "text", "file_content")
EXEMPT: Final = ("$web_search",)
"""Tools whose outputs and arguments stay: Kimi's built-in search, since its tool message repeats an ID that the
provider looks up."""


MAX_WINDOW_TOKENS: Final = 100_000_000
"""Maximum tokens of a window, a budget or a usage. Chosen as a hundred times the largest window that is sold, so that
only numbers in another unit are refused."""
MIN_BUDGET_TOKENS: Final = 2_000
"""Minimum tokens of a body's budget. Chosen so that a prompt and a notice of what was left out fit."""
QUIET_BATCH_TOKENS: Final = 20_000
"""Default minimum of tokens that a batch must save while there is no pressure on the window."""
_Name = Annotated[str, Meta(min_length=1, max_length=256)]
_Names = Annotated[tuple[_Name, ...], Meta(max_length=256)]


class CompactionRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which arguments of which tools become markers once the call is done."""

    tools: Annotated[_Names, Meta(description="Compared without case and without a host's prefix.")] = WRITERS
    fields: Annotated[_Names, Meta(description="Names of arguments at any depth; `*` for every text.")] = WRITTEN


class CompactionPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a body is compacted. Every size is in tokens of o200k_base."""

    inline_tokens: Annotated[
        int,
        Meta(
            ge=64,
            le=1_000_000,
            description="Output text of at most this many tokens stays as it is while the body is within its budget.",
        ),
    ] = 1_000
    card_tokens: Annotated[
        int,
        Meta(
            ge=64,
            le=8_192,
            description="Maximum tokens of a card; at most `inline_tokens`. Within a budget also at most an 80th of "
            "it, or 128.",
        ),
    ] = 600
    protect: Annotated[
        Protect,
        Meta(
            description="What is left alone while the model works with it. `turn`: everything from the user's "
            "last message on, and the model's last step before it. `step`: the model's last step and "
            "what came back since. `none`: only calls without an output, so an output is a card from "
            "its first request on, which invalidates neither prompt cache nor thinking."
        ),
    ] = "turn"
    latest_tokens: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=MAX_WINDOW_TOKENS,
                description="Protected output text over this many tokens still becomes a card; null protects any "
                "size. A value below `inline_tokens` counts as `inline_tokens`.",
            ),
        ]
        | None
    ) = 10_000
    exempt_tools: Annotated[
        _Names, Meta(description="Outputs of these tools never become cards, and their arguments never become markers.")
    ] = EXEMPT
    arguments: Annotated[
        tuple[CompactionRule, ...],
        Meta(
            max_length=64,
            description="Default: the content of tools that write files. Long arguments of any other tool become "
            "markers when the body is over its budget.",
        ),
    ] = (CompactionRule(),)
    argument_tokens: Annotated[
        int, Meta(ge=64, le=1_000_000, description="An argument of at most this many tokens stays as it is.")
    ] = 500
    media: Annotated[
        Media,
        Meta(description="Whether images and files in outputs that are not protected become placeholders."),
    ] = "keep"
    server_tools: Annotated[
        bool, Meta(description="Whether to replace text of tools that the provider ran itself, too.")
    ] = False
    batch_tokens: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=10_000_000,
                description="What is no longer protected waits until this many tokens can be saved at once, so that "
                "the prompt's cached prefix changes rarely; 0 replaces it once its turn is over. Null, with "
                "`protect=turn`: search texts are replaced once their turn is over. Written files, outputs and reads, "
                f"once the next turn is over, are replaced when {QUIET_BATCH_TOKENS:,} tokens can be saved at once "
                "and repeating them has cost as much as changing the cached prefix does, or when the body is over its "
                "budget.",
            ),
        ]
        | None
    ) = None
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=MIN_BUDGET_TOKENS,
                le=MAX_WINDOW_TOKENS,
                description="Budget of the whole body; only if nothing else brings the body within it, the oldest "
                "messages are dropped, with a notice that names where they are stored. Null: `compact_percent` of "
                "the usable `window`, or of the model's own window, where it is known by the model's name; if "
                "neither is, nothing is ever dropped.",
            ),
        ]
        | None
    ) = None
    settle_percent: Annotated[
        int,
        Meta(
            ge=10,
            le=100,
            description="A body over its budget is reduced to this percentage of it, so that the next turns need "
            "no further change.",
        ),
    ] = 60

    @property
    def is_quiet(self) -> bool:
        """Whether outputs of finished turns stay until the window is under pressure or a large batch can be saved."""
        return self.batch_tokens is None and self.protect == "turn"


def check_policy(policy: CompactionPolicy) -> CompactionPolicy:
    """Returns the policy unchanged after checking conditions between its fields.

    Raises:
        CoatcheckError: `invalid_request`, with the field's name.
    """
    if policy.card_tokens > policy.inline_tokens:
        raise CoatcheckError(
            Code.INVALID_REQUEST,
            "The policy's `card_tokens` must not be more than inline_tokens, or cards would be larger than what they "
            "replace.",
            field="card_tokens",
        )
    return policy


def same_tool(name: str | None, names: tuple[str, ...]) -> bool:
    """Returns whether a tool is among `names`, even with a host's prefix (`mcp__server__write_file`)."""
    if name is None:
        return False
    key = name.casefold()
    bare = key.rpartition("__")[2]
    return any(one.casefold() in {key, bare} for one in names)
