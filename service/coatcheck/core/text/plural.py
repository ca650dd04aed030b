"""Numbers with what they count, and lists cut short, for use in sentences."""

from collections.abc import Sequence


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """Returns `1 line`, `2,000 lines`; `nouns` if the plural is not formed with an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def format_count(number: int, noun: str) -> str:
    """Returns `1 file`, `2000 files`, `2 indexes`: without a comma, which would cost a card a token."""
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('x') else 's'}"


def first_of(items: Sequence[str], most: int, noun: str = "more", *, separator: str = "; ") -> str:
    """Returns the first `most` items, and how many more there are: `a; b; … 4 more`."""
    return separator.join([*items[:most], *([f"… {len(items) - most} {noun}"] if len(items) > most else [])])
