"""Which output answers which call, where IDs are used twice or not at all; and how notices add up."""

from typing import Any

from coatcheck.core.context.detect import index_of
from coatcheck.core.context.notice import Omitted, OmittedArtifact, joined
from coatcheck.core.context.pairs import pair


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
    one = Omitted(3, 1, 100, ("a",), (first,), 2, "art_3")
    two = Omitted(4, 2, 50, ("b",), (second,), 0, "art_4")
    assert joined([one], two) == Omitted(7, 3, 150, ("a", "b"), (first, second), 2, "art_4")
