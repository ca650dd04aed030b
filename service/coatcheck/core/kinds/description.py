"""What a kind's describer reads off a payload, once, when it is stored.

Values are verbatim: whoever shows them to a model makes them inert.
"""

from msgspec import Struct


class Description(Struct, frozen=True, kw_only=True):
    """Facts about a payload. Every one is true of the whole payload, or says of which part, or is absent."""

    facts: tuple[str, ...] = ()
    """Lines for the card, most important first."""
    title: str | None = None
    url: str | None = None
    language: str | None = None
    media_type: str | None = None
    path: str | None = None
    """A JSONPath to the values that a reader is most likely to want next."""
    sections: tuple[str, ...] = ()
    """Titles of parts that can be read by `section`, in order."""


NOTHING = Description()


def plural(number: int, noun: str) -> str:
    """Returns `1 line`, `2000 lines`: without a comma, which would cost a card a token."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
