"""How a caller wants a body compacted. Every size is in tokens of the given counter.

The defaults act only on what is certainly bulk, and change nothing that the model is still working on. A policy that
contradicts itself is refused when it is used, with the field's name.
"""

from typing import Final, Literal

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code

Protect = Literal["turn", "step", "none"]
Media = Literal["keep", "placeholder"]

WRITERS: Final = (
    "write_file",
    "create_file",
    "write",
    "writefile",
    "write_to_file",
    "save_file",
    "new_file",
    "create",
    "str_replace_based_edit_tool",
    "str_replace_editor",
    "file_editor",
)
"""Tools that write a whole file, by the names that agents give them; compared without case and a host's prefix."""
WRITTEN: Final = ("content", "contents", "file_text", "text", "file_content")
EXEMPT: Final = ("$web_search",)
"""Kimi's built-in search: its tool message repeats an ID that the provider looks up."""


class CompactionRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Which arguments of which tools become markers once the call is done."""

    tools: tuple[str, ...] = WRITERS
    fields: tuple[str, ...] = WRITTEN
    """Names of arguments, at any depth; `*` for every text, including the free text of a custom tool."""


class CompactionPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a body is compacted."""

    inline_tokens: int = 1_000
    """Texts of outputs up to this many tokens stay as they are, unless the body is over its budget."""
    card_tokens: int = 600
    """Maximum size of a card; in a small budget it is less (`Planner.card_tokens`)."""
    protect: Protect = "turn"
    """What is spared while the model works with it. `turn`: everything from the user's last message on, and the model's
    last step before it. `step`: the model's last message or run of items, and later results. `none`: only calls without
    an output yet; then an output is a card from its first request on, which costs no prompt cache and no thinking."""
    latest_tokens: int | None = 10_000
    """Texts of protected outputs above this size become cards nevertheless, at once: one that breaks the next request
    protects nothing. None spares every size; values below `inline_tokens` are raised to it."""
    exempt_tools: tuple[str, ...] = EXEMPT
    """Tools whose outputs never become cards, and whose arguments never become markers."""
    arguments: tuple[CompactionRule, ...] = (CompactionRule(),)
    argument_tokens: int = 500
    """Arguments up to this many tokens stay as they are, unless the body is over its budget."""
    media: Media = "keep"
    """Whether images and files in unprotected outputs stay or become placeholders."""
    server_tools: bool = False
    """Whether outputs and arguments of tools that the provider ran are replaced too, as far as they are text."""
    batch_tokens: int | None = None
    """What is no longer protected waits until this many tokens can be saved at once, so that the prompt's cached prefix
    changes rarely. 0: each turn is compacted once, at its end. None: with `protect=turn`, search texts are replaced at
    the end of their turn; written files, outputs and reads wait from the end of the next turn on, until QUIET_BATCH can
    be saved and repeating them has cost as much as changing the prefix costs; otherwise 0."""
    max_tokens: int | None = None
    """Budget of the whole body. None: the window, if it is given or known by the model's name."""
    settle_percent: int = 60
    """A body over its budget is reduced to this share of it, so that the next turns need no change."""

    @property
    def is_quiet(self) -> bool:
        """Whether outputs of finished turns wait for pressure on the window, or for a large batch."""
        return self.batch_tokens is None and self.protect == "turn"


LEAST_BUDGET: Final = 2_000
QUIET_BATCH: Final = 20_000
"""Default tokens that must be saved at once while there is no pressure on the window."""
BOUNDS: Final = {
    "inline_tokens": (64, 1_000_000),
    "card_tokens": (64, 8_192),
    "argument_tokens": (64, 1_000_000),
    "batch_tokens": (0, 10_000_000),
    "settle_percent": (10, 100),
}


def check_policy(policy: CompactionPolicy) -> CompactionPolicy:
    """Returns the policy after checking it.

    Raises:
        CoatcheckError: `invalid_request`, naming the field.
    """
    for name, (least, most) in BOUNDS.items():
        value = getattr(policy, name)
        if value is not None and not least <= value <= most:
            raise _refusal_of(f"must be between {least:,} and {most:,}.", name)
    if policy.card_tokens > policy.inline_tokens:
        raise _refusal_of(
            "must not be more than inline_tokens, or cards would be larger than what they replace.", "card_tokens"
        )
    if policy.max_tokens is not None and policy.max_tokens < LEAST_BUDGET:
        raise _refusal_of(f"must be at least {LEAST_BUDGET:,}, room for a notice and a prompt.", "max_tokens")
    return policy


def _refusal_of(sentence: str, field: str) -> CoatcheckError:
    return CoatcheckError(Code.INVALID_REQUEST, f"The policy's `{field}` {sentence}", field=field)


def same_tool(name: str | None, names: tuple[str, ...]) -> bool:
    """Returns whether a tool is one of these, even with a host's prefix (`mcp__server__write_file`)."""
    if name is None:
        return False
    key = name.casefold()
    bare = key.rpartition("__")[2]
    return any(one.casefold() in {key, bare} for one in names)
