"""What a payload is, and what its kind deserves to show.

`recognise` runs once, at ingest, on a bounded sample; cards at any budget are cut from what it found. It decides
nothing about budgets and raises for no content.
"""

from typing import Final

from coatcheck.core.artifact import Facts, Kind, Said, Sample
from coatcheck.core.kinds.classify import classify
from coatcheck.core.kinds.code import CodeCutter
from coatcheck.core.kinds.cutter import Cutter
from coatcheck.core.kinds.diff import DiffCutter
from coatcheck.core.kinds.hints import find_hints
from coatcheck.core.kinds.json_shape import JsonCutter
from coatcheck.core.kinds.markers import find_markers
from coatcheck.core.kinds.media import MediaCutter, drawing
from coatcheck.core.kinds.output import OutputCutter
from coatcheck.core.kinds.page import PageCutter
from coatcheck.core.kinds.results import ResultsCutter
from coatcheck.core.kinds.table import TableCutter
from coatcheck.core.kinds.text import TextCutter

_MEDIA: Final = {Kind.IMAGE, Kind.BINARY}

CUTTERS: Final[dict[Kind, Cutter]] = {
    Kind.COMMAND_OUTPUT: OutputCutter(),
    Kind.LOG: OutputCutter(),
    Kind.CODE_OR_FILE: CodeCutter(),
    Kind.DIFF: DiffCutter(),
    Kind.JSON: JsonCutter(),
    Kind.TABLE: TableCutter(),
    Kind.WEB_PAGE: PageCutter(),
    Kind.SEARCH_RESULTS: ResultsCutter(),
    Kind.IMAGE: MediaCutter(),
    Kind.BINARY: MediaCutter(),
    Kind.TEXT: TextCutter(),
}
"""Who knows what about each kind. The place to go deeper into one."""


def recognise(sample: Sample, said: Said) -> Facts:
    """Everything a card needs to know about a payload besides its excerpts."""
    kind = classify(sample, said)
    described = CUTTERS[kind].describe(sample, said)
    media = kind in _MEDIA or not sample.size
    drawn = drawing(sample, kind)
    return Facts(
        kind=kind,
        media_type=described.media_type or said.media_type,
        title=described.title,
        url=described.url,
        language=described.language,
        markers=() if media else find_markers(sample),
        shape=(drawn, *described.shape) if drawn else described.shape,
        hints=() if media else find_hints(sample, kind),
    )
