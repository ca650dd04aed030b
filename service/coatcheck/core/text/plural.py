"""A number and what it counts, for use in sentences."""


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """Returns `1 line`, `2,000 lines`; `nouns` if the plural is not formed with an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def counted(number: int, noun: str) -> str:
    """Returns `1 file`, `2000 files`, `2 indexes`: without a comma, which would cost a card a token."""
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('x') else 's'}"
