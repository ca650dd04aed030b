"""Names of sections and entries: which section a caller means, which exist, and how an answer names a section.

Models copy titles whole, in part, or only the name in them, so all of these are accepted if they mean one section.
Names are cited as `art_…#r3`. Pure; no bytes are read.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from coatcheck.core.caches import remember
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.outline.model import OutlineEntry, What, make_title
from coatcheck.core.views.view import Section
from coatcheck.core.views.window import Extent, LineExtent
from coatcheck_client.contract.inert import one_line

_NAME_CHARS = 200
"""Maximum characters of a caller's word; no title has more."""

_BEFORE = r"func \([^()]*\) ?|pub\([^()]*\) |\w+\([^()]*\) ?[*& ]*(?=[A-Za-z]\w*\()"
"""Matches what may stand before a name and has parentheses of its own: a receiver, a scope, a macro with a type."""
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
    word = _plain(query[:_NAME_CHARS])
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


_NAMED: Final = 6
"""Maximum sections that an error names."""
_TITLE_CHARS: Final = 40
"""Maximum characters of a section's title in an error."""


class SectionPart(Struct, frozen=True, kw_only=True):
    """A section as answers name it."""

    name: str
    title: str
    level: int
    """1 is the top level."""
    lines: LineExtent
    """Its lines in the view."""
    bytes: Extent
    """Its bytes in the view."""
    url: str | None = None


def part(section: Section) -> SectionPart:
    """Returns a section as answers name it."""
    return SectionPart(
        name=section.name,
        title=section.title,
        level=section.level,
        lines=LineExtent(section.line, section.line + section.lines - 1),
        bytes=Extent(section.start, section.end),
        url=section.url,
    )


def nth_section(sections: tuple[Section, ...], query: str) -> int | None:
    """Returns the index of the section that `query` means; None if there is none, or several.

    A section is meant by its name (`s3`, `#S3`), by its title, or by the title's beginning, in upper or lower case.
    """
    matches = match_sections(sections, query)
    return matches[0] if len(matches) == 1 else None


def match_sections(sections: tuple[Section, ...], query: str) -> list[int]:
    """Returns the indices of all sections that `query` may mean, in order."""
    plain = query.strip().removeprefix("#").casefold()
    name_matches = [number for number, section in enumerate(sections) if section.name.casefold() == plain]
    return name_matches[:1] or match_titles([section.title for section in sections], query)


def no_section(artifact_id: str, query: str, sections: tuple[Section, ...]) -> CoatcheckError:
    """Returns `section_not_found`, naming the sections that may be meant, or else the first ones."""
    if not sections:
        return CoatcheckError(
            Code.SECTION_NOT_FOUND, f"{artifact_id} has no sections. Read it without `section`, by lines.", sections=0
        )
    matching_sections = [sections[number] for number in match_sections(sections, query)]
    others = sorted(sections, key=lambda section: section.aside)
    return not_found(
        artifact_id,
        query,
        list(map(_label_section, matching_sections or others)),
        ambiguous=bool(matching_sections),
        total=len(sections),
    )


def not_found(artifact_id: str, query: str, candidates: list[str], *, ambiguous: bool, total: int) -> CoatcheckError:
    """Returns `section_not_found` with the first candidates. `ambiguous`: all of them may be meant."""
    label = shorten_label(query)
    names = ", ".join(candidates[:_NAMED])
    more = f" and {len(candidates) - _NAMED} more" if len(candidates) > _NAMED else ""
    if ambiguous:
        detail = f'"{label}" may be any of {len(candidates)} sections of {artifact_id}: {names}{more}.'
    else:
        detail = f'{artifact_id} has no section "{label}". It has {names}{more}.'
    return CoatcheckError(Code.SECTION_NOT_FOUND, f"{detail} Name one of them, or leave section out.", sections=total)


def shorten_label(text: str) -> str:
    """Returns a caller's word or a title on one line, in at most 40 characters."""
    label = one_line(text[: _TITLE_CHARS * 2])
    return label if len(label) <= _TITLE_CHARS else f"{label[: _TITLE_CHARS - 1]}…"


def _label_section(section: Section) -> str:
    title = shorten_label(section.title)
    return f"{section.name} ({title})" if title else section.name


_KINDS: Final[dict[str, What]] = {"r": "result", "p": "part"}


def of_sections(sections: tuple[Section, ...]) -> list[OutlineEntry]:
    """Returns an entry for each section."""
    return [
        OutlineEntry(
            what=_KINDS.get(section.name[:1], "heading"),
            section=section.name,
            title=make_title(section.title),
            level=section.level,
            lines=LineExtent(section.line, section.line + section.lines - 1),
            bytes=Extent(section.start, section.end),
            url=None if section.url is None else one_line(section.url),
        )
        for section in sections
    ]
