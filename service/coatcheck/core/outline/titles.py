"""Finds the title that a caller means among many: models copy titles whole, in part, or only the name in them."""

import re
from collections.abc import Callable, Sequence

from coatcheck.core.caches import remember

_LONGEST = 200
"""Maximum characters of a caller's word; no title has more."""

_BEFORE = r"func \([^()]*\) ?|pub\([^()]*\) |\w+\([^()]*\) ?[*& ]*(?=[A-Za-z]\w*\()"
"""What may stand before a name with parentheses of its own: a receiver, a scope, a macro with a type."""
_NAMING = re.compile(rf"(?:{_BEFORE})?(?:[^(= ]| (?!#))*")
_TYPED = re.compile(r"((?:export |declare )*(?:const|let|var) [\w$]+) ?:.*")
_KEYWORD = re.compile(r"(?:def|fn|func|fun|function|sub|operator|impl|)")
_HASH = re.compile(r"[0-9a-f]{7,64}")


def match_titles(titles: Sequence[str], query: str, *, names: bool = False) -> list[int]:
    """Returns the indices of the titles that `query` may mean, in order: those of the first rule that matches any.

    The rules: the whole title; with `names`, the title without its arguments, a name in it (`main` in
    `def main(args)`, `b.py` in `a/b.py`) or a longer form of the hash that it begins with; its beginning up to the end
    of a word; its beginning. Case and runs of blanks make no difference, except between titles that differ only in
    them, as names of files may.
    """
    word = _plain(query[:_LONGEST])
    if not word:
        return []
    plain = [_plain(title) for title in titles]
    rules: list[Callable[[str], bool]] = [lambda title: title == word]
    if names:
        rules.append(lambda title: without_arguments(title) == word)
        name = re.compile(rf"(?<![\w.-]){re.escape(word.removesuffix('()'))}(?![\w.-])")
        rules.append(lambda title: name.search(_head(title)) is not None)
        if _HASH.fullmatch(word):
            rules.append(lambda title: _HASH.match(title) is not None and word.startswith(title.partition(" ")[0]))
    rules.append(lambda title: title.startswith(word) and not title[len(word) : len(word) + 1].isalnum())
    rules.append(lambda title: title.startswith(word))
    for rule in rules:
        fitting = [number for number, title in enumerate(plain) if rule(title)]
        if fitting:
            forms = [(number, titles[number].strip()) for number in fitting]
            exact = [number for number, title in forms if query.strip() in {title, without_arguments(title)}]
            return exact if len(exact) == 1 else fitting
    return []


@remember("names", 2_048, 340)
def without_arguments(title: str) -> str:
    """Returns the beginning of a definition up to its name: without parameters, results, types and values.

    `func (c *Command) find` for `func (c *Command) find(args []string) error`; the title itself if nothing is left.
    """
    match = _NAMING.match(title)
    short = _TYPED.sub(r"\1", match[0] if match else title).rstrip(" \t:")
    if short.count("<") > short.count(">"):  # cut inside what a generic definition requires of its types
        short = short.partition("<")[0].rstrip()
    return title if _KEYWORD.fullmatch(short.rpartition(" ")[2]) else short


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _head(title: str) -> str:
    """Returns the part of a title that names something: without arguments, which may contain other names."""
    receiver = re.sub(r"^func \([^)]*\) *", "func ", title)
    return re.split(r"[(=:{]", receiver, maxsplit=1)[0]
