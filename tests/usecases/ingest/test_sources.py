"""What a session has already, and when not all of it is known."""

import json
from datetime import timedelta

from coatcheck.core import ids
from coatcheck.core.artifact import Artifact, Kind
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.reading.sources import MAX_SOURCES, Sources
from support.harness import CALLER, Harness

SESSION = "s"


def response(number: int) -> bytes:
    text = f"Text number {number} of a source that is told apart from all others by the number {number}."
    result = {"title": f"T{number}", "url": f"https://e.org/{number}", "content": text}
    return json.dumps({"query": "q", "results": [result]}).encode()


async def stored(harness: Harness, number: int) -> Artifact:
    harness.clock.forward(timedelta(seconds=1))
    receipt = await harness.put(response(number), said={"session": SESSION, "kind": Kind.SEARCH_RESULTS})
    found = await harness.catalog.find(CALLER.namespace, ids.parse(receipt.id), harness.clock.now())
    assert isinstance(found, FoundArtifact)
    return found.artifact


class Ticks:
    """Each look is some seconds after the one before."""

    def __init__(self, step: float) -> None:
        self._now, self.step = 0.0, step

    def __call__(self) -> float:
        self._now += self.step
        return self._now


def sources(harness: Harness, ticks: Ticks) -> Sources:
    return Sources(harness.catalog, harness.clock, harness.opened(), harness.pool, ticks=ticks)


async def test_the_sources_of_before_are_known_oldest_first(harness: Harness) -> None:
    artifacts = [await stored(harness, number) for number in range(4)]
    known = await sources(harness, Ticks(0))(CALLER, SESSION, artifacts[2])
    assert [source.citation for source in known.sources] == [f"{each.id}#r1" for each in artifacts[:2]]
    assert [source.canonical_url for source in known.sources] == ["https://e.org/0", "https://e.org/1"]
    assert all(source.fingerprint for source in known.sources)
    assert known.partial is False


async def test_only_the_newest_of_many_are_looked_at(harness: Harness) -> None:
    artifacts = [await stored(harness, number) for number in range(MAX_SOURCES + 5)]
    known = await sources(harness, Ticks(0))(CALLER, SESSION, artifacts[-1])
    assert [source.citation for source in known.sources] == [f"{each.id}#r1" for each in artifacts[4:-1]]


async def test_where_time_runs_out_it_is_said_and_what_is_remembered_is_known(harness: Harness) -> None:
    artifacts = [await stored(harness, number) for number in range(4)]
    ticks = Ticks(0.5)  # two looks are in time: at the start, and one before each reading
    step = sources(harness, ticks)
    first = await step(CALLER, SESSION, artifacts[-1])
    assert (len(first.sources), first.partial) == (2, True)
    second = await step(CALLER, SESSION, artifacts[-1])
    assert (len(second.sources), second.partial) == (3, False)
