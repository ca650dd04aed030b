"""Adapts the service's sentences for a terminal: the request fields that they name are options here."""

import re
from typing import Final

import click

_FIELD: Final = re.compile(
    r"""
      '(?P<must>[a-z_]+)'(?=\ must\b)                              # 'card_tokens' must be a whole number
    | \b(?P<flag>[a-z_]+)=true\b(?!\ \(on\ the\ command\ line)     # use literal=true
    | (?:(?<=\bneeds\ its\ )|(?<=\bwith\ ))(?P<needed>[a-z]+)\b(?!=)    # needs its namespace; with ttl
    | \b(?P<plain>[a-z]+(?:_[a-z]+)+)\b                            # try ignore_case
    """,
    re.VERBOSE,
)
_CALLED: Final = {"url": "source", "labels": "label"}
"""Fields whose option has another name."""


def in_options(sentence: str) -> str:
    """Returns a sentence with the running command's options in place of fields; quotations stay as they are."""
    context = click.get_current_context(silent=True)
    if context is None:
        return sentence
    options = {each.name: each.opts[0] for each in context.command.params if isinstance(each, click.Option)}

    def option(match: re.Match[str]) -> str:
        name = next(each for each in match.groups() if each)
        return options.get(name) or options.get(_CALLED.get(name, "")) or match[0]

    # What is in quotation marks is somebody's pattern, or an example.
    parts = re.split(r'(".*")', sentence)
    return "".join(part if at % 2 else _FIELD.sub(option, part) for at, part in enumerate(parts))
