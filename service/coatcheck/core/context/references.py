"""Finds the artifacts of the store to which a history refers: artifacts that were read, and responses of web searches.

A plan needs this information: a read that cannot be repeated must stay, and the summary of a search is made from its
stored response. The caller queries the store.
"""

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field

from coatcheck.core.context import signs
from coatcheck.core.context.arguments import strings_in
from coatcheck.core.context.body.encoding import Value
from coatcheck.core.context.body.model import HistoryIndex, Output
from coatcheck.core.context.body.splice import get, parse_document
from coatcheck.core.context.command import file_of, subject_of
from coatcheck.core.context.notice import OmittedArtifact, about
from coatcheck.core.context.signs import SearchText, ids_in
from coatcheck.core.context.timeline import Timeline, pair
from coatcheck.core.read_answer import read_answer_of


class HistoryReferences(Struct, frozen=True):
    """The artifacts and searches about which the caller must query the store."""

    reads: frozenset[str]
    """IDs of the artifacts that were read in the history."""
    searches: frozenset[SearchText]


class KnownArtifacts(Struct, frozen=True, kw_only=True):
    """The store's answer about the references of a history."""

    readable: frozenset[str] | None = None
    """IDs of the artifacts that can be read now; None: all of them."""
    summaries: Mapping[SearchText, str] = field(default_factory=dict[SearchText, str])
    """The summary of each search; a search without a summary is treated like any other output."""

    def is_readable(self, artifact_id: str) -> bool:
        """Returns whether an artifact can be read now."""
        return self.readable is None or artifact_id in self.readable


def references(index: HistoryIndex) -> HistoryReferences:
    """Returns the artifacts and searches to which the outputs of a history refer."""
    reads: set[str] = set()
    searches: set[SearchText] = set()
    for item in index.items:
        for output in item.outputs:
            for piece in output.pieces:
                text = signs.recognisable(piece.text)
                if (answer := read_answer_of(text)) is not None:
                    reads.add(answer.artifact_id)
                elif (search := signs.search_text(text)) is not None:
                    searches.add(search)
    return HistoryReferences(frozenset(reads), frozenset(searches))


def turn_searches(index: HistoryIndex) -> list[str]:
    """Returns the IDs of the stored responses of the latest turn's searches, in order."""
    return [artifact_id for artifact_id, _ in search_answers(index) if artifact_id is not None]


def search_answers(index: HistoryIndex, line: Timeline | None = None) -> Iterator[tuple[str | None, Output]]:
    """Yields the answers of web searches in the latest turn.

    Each answer comes with the ID of the artifact that contains the provider's response; None if that is not stored.
    """
    line = line or Timeline(index, pair(index))
    for item in index.items[line.turn(line.size) :]:
        for output in item.outputs:
            text = signs.recognisable(output.pieces[0].text) if output.pieces else ""
            if signs.is_search(text):
                search = signs.search_text(text)
                yield None if search is None else search.artifact_id, output


def standing(body: Value, index: HistoryIndex, numbers: Collection[int]) -> list[OmittedArtifact]:
    """Returns the artifacts that these messages name in cards, in markers and in lines that replace reads.

    Each artifact has a description from the call that made it, or from the call that read it if these messages only
    read it.
    """
    # The call that made an artifact describes it best. A call that read it says less about its content.
    calls = {id(one.output): one.call for one in pair(index).pairs}
    descriptions: dict[str, str] = {}
    only_read: dict[str, str] = {}
    for number in sorted(numbers):
        item = index.items[number]
        for output in item.outputs:
            call = calls.get(id(output))
            tool = output.name or (call.name if call is not None else None)
            words = subject_of(get(body, call.sites[0].at)) if call is not None and call.sites else None
            for piece in output.pieces:
                text = signs.recognisable(piece.text)
                size = signs.card_size(text)
                if size is not None or signs.is_marker(text):
                    descriptions.setdefault(ids_in(text)[0], about(tool, words, size or ""))
                elif signs.is_read_line(text):
                    only_read.setdefault(ids_in(text)[0], about(tool, words, ""))
        for call in item.calls:
            # All copies of a call's arguments have the same markers, so one copy is enough.
            for site in call.sites[:1]:
                value = get(body, site.at)
                for _, text in strings_in(parse_document(value) if site.form == "json" else value):
                    marker = signs.recognisable(text)
                    if signs.is_marker(marker):
                        words = file_of(value) or signs.parse_marker(marker) or subject_of(value)
                        descriptions.setdefault(ids_in(marker)[0], about(call.name, words, "argument"))
    return [OmittedArtifact(ref, words) for ref, words in (only_read | descriptions).items()]
