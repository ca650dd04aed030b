"""Finds the title that a caller means among many: models copy titles whole, in part, or only the name in them."""

import re
from collections.abc import Callable, Sequence

_LONGEST = 200
"""Maximum characters of a caller's word; no title has more."""

_HASH = re.compile(r"[0-9a-f]{7,64}")


def meant_titles(titles: Sequence[str], wanted: str, *, names: bool = False) -> list[int]:
    """Returns the indices of the titles that `wanted` may mean, in order: those of the first rule that matches any.

    The rules: the whole title; with `names`, a name in it (`main` in `def main(args)`, `b.py` in `a/b.py`) or a longer
    form of the hash that it begins with; its beginning up to the end of a word; its beginning. Case and runs of blanks
    make no difference, except between titles that differ only in them, as names of files may.
    """
    word = _plain(wanted[:_LONGEST])
    if not word:
        return []
    plain = [_plain(title) for title in titles]
    rules: list[Callable[[str], bool]] = [lambda title: title == word]
    if names:
        name = re.compile(rf"(?<![\w.-]){re.escape(word.removesuffix('()'))}(?![\w.-])")
        rules.append(lambda title: name.search(_head(title)) is not None)
        if _HASH.fullmatch(word):
            rules.append(lambda title: _HASH.match(title) is not None and word.startswith(title.partition(" ")[0]))
    rules.append(lambda title: title.startswith(word) and not title[len(word) : len(word) + 1].isalnum())
    rules.append(lambda title: title.startswith(word))
    for rule in rules:
        fitting = [number for number, title in enumerate(plain) if rule(title)]
        if fitting:
            exact = [number for number in fitting if titles[number].strip() == wanted.strip()]
            return exact if len(exact) == 1 else fitting
    return []


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _head(title: str) -> str:
    """Returns the part of a title that names something: without arguments, which may contain other names."""
    receiver = re.sub(r"^func \([^)]*\) *", "func ", title)
    return re.split(r"[(=:{]", receiver, maxsplit=1)[0]
