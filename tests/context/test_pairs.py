"""Which output answers which call, where IDs are used twice or not at all; and how notices add up."""

import copy
from typing import Any

import pytest

from coatcheck.core.context.detect import index_of
from coatcheck.core.context.notice import OmittedArtifact, OmittedHistory, merge_notices
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.timeline import pair
from context.histories import FORMATS, LISTS, Call, Step, Turn, compact

LONG = "".join(f"line {n} of what a tool said\n" for n in range(100))


def call(name: str, call_id: str | None = None) -> Any:  # noqa: ANN401 - an item of a body
    found = {"type": "function_call", "name": name, "arguments": "{}"}
    return found if call_id is None else {**found, "call_id": call_id}


def answers(*items: Any) -> list[tuple[int, int]]:  # noqa: ANN401 - items of a body
    return [(one.call_item, one.output_item) for one in pair(index_of({"input": list(items)})).pairs]


def test_an_id_used_again_belongs_to_its_newest_open_call() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    assert answers(call("a", "c"), call("a", "c"), output) == [(1, 2)]
    assert answers(call("a", "c"), output, call("a", "c"), output) == [(0, 1), (2, 3)]


def test_an_output_that_stands_before_its_call_pairs_by_its_id_only() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    other = {"type": "function_call_output", "call_id": "d", "output": "y"}
    assert answers(output, call("a", "d"), other, call("a", "c")) == [(3, 0), (1, 2)]
    assert answers({"type": "function_call_output", "name": "a", "output": "x"}, call("a")) == []


def test_outputs_without_an_id_pair_by_name_in_order() -> None:
    named = {"type": "function_call_output", "name": "b", "output": "x"}
    bare = {"type": "function_call_output", "output": "x"}
    assert answers(call("a"), call("b"), named, bare) == [(1, 2), (0, 3)]


def test_notices_add_up() -> None:
    first, second = OmittedArtifact("art_1", "bash"), OmittedArtifact("art_2", "")
    one = OmittedHistory(3, 1, 100, ("a",), (first,), 2, "art_3")
    two = OmittedHistory(4, 2, 50, ("b",), (second,), 0, "art_4")
    assert merge_notices([one], two) == OmittedHistory(7, 3, 150, ("a", "b"), (first, second), 2, "art_4")


@pytest.mark.parametrize("cut", ["calls", "results", "twice"])
@pytest.mark.parametrize("name", FORMATS)
def test_calls_without_results_results_without_calls_and_ids_that_come_twice_keep_their_order(
    name: str, cut: str
) -> None:
    """Such bodies are no one's fault that could be mended here: they are made smaller, and nothing else happens."""
    body = FORMATS[name]([Turn(f"Do {n}", [Step("", [Call("c", "bash", {}, f"{n}: " + LONG)])]) for n in range(12)])
    messages = body[LISTS[name]]
    if cut != "twice":
        items = index_of(body).items
        gone = [number for number, item in enumerate(items) if (item.outputs if cut == "calls" else item.calls)]
        body[LISTS[name]] = [one for number, one in enumerate(messages) if number not in set(gone[::2])]
    before = copy.deepcopy(body)
    index = index_of(body)
    new, report = compact(body, CompactionPolicy(inline_tokens=100, card_tokens=80, max_tokens=2_000))
    assert body == before
    assert report.tokens_after < report.tokens_before
    old, now = pair(index), pair(index_of(new))
    if cut != "twice":
        assert len(old.open) + len(old.orphans) > 0
        assert (len(now.open), len(now.orphans)) == (len(old.open), len(old.orphans)), "none of them is left out"
    again, _ = compact(new, CompactionPolicy(inline_tokens=100, card_tokens=80, max_tokens=2_000))
    assert again is new
