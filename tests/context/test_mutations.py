"""Bodies that nobody meant: whatever is broken, the answer is a body or a clear refusal, and what is sound holds."""

import contextlib
import copy
import random
import sys
from typing import Any

import pytest

from coatcheck.core.context.body.encoding import as_list, as_object
from coatcheck.core.context.body.model import Format
from coatcheck.core.context.measure import MeasureRequest, measure
from coatcheck.core.context.policy import CompactionPolicy
from coatcheck.core.context.window import ModelWindow
from coatcheck.core.errors import CoatcheckError
from context.histories import FORMATS, compact, conversation, counter, differences

JUNK: list[Any] = [
    None, True, 0, -1.5, "", "x" * 900, [], {}, [[]], [None], {"type": "tool_use"}, {"type": ["tool_use"]}, '{"a":',
    {"content": 7}, {"type": "text", "text": 7}, {"role": {}, "content": []}, {"id": [], "function": "f"},
    "\ud800" * 900,
    {"type": "tool_result", "tool_use_id": {}, "content": {"type": "text"}}, {"image_url": {"url": {}}}, 10**400,
    {"kind": []}, [{"kind": {}, "type": {}, "role": []}],
]  # fmt: skip
POLICIES = [
    CompactionPolicy(
        inline_tokens=100, card_tokens=80, argument_tokens=64, protect="none", media="placeholder", server_tools=True
    ),
    CompactionPolicy(inline_tokens=100, card_tokens=80, argument_tokens=64, max_tokens=2_000, media="placeholder"),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401 - any JSON
    inner: list[tuple[Any, Any]] = [*as_object(value).items(), *enumerate(as_list(value))]
    return [at, *(place for key, one in inner for place in places(one, (*at, key)))]


def mutated(body: Any, rng: random.Random) -> Any:  # noqa: ANN401 - any JSON
    body = copy.deepcopy(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.choice(places(body)[1:])
        holder = body
        for step in at[:-1]:
            holder = holder[step]
        what = rng.random()
        if what < 0.25:
            del holder[at[-1]]
        elif what < 0.4 and isinstance(holder, list):
            as_list(holder).insert(at[-1], copy.deepcopy(as_list(holder)[at[-1]]))
        elif what < 0.5 and isinstance(holder, list):
            rng.shuffle(as_list(holder))
        else:
            holder[at[-1]] = copy.deepcopy(rng.choice(JUNK))
        if not body or not places(body)[1:]:
            break
    return body


@pytest.mark.parametrize("name", FORMATS)
def test_broken_bodies_are_compacted_or_refused(name: str) -> None:
    rng = random.Random(f"mutations of {name}")
    done = 0
    bodies = [FORMATS[name](conversation(seed, 3)) for seed in range(4)]
    for at in range(64):
        body = mutated(bodies[at % len(bodies)], rng)
        before = copy.deepcopy(body)
        policy = POLICIES[at % 2]
        try:
            new, report = compact(body, policy)
            _ = measure(body, MeasureRequest(window=ModelWindow(model=9_000)), policy, counter())
        except CoatcheckError:
            continue
        assert list(differences(before, body)) == []
        again, second = compact(new, policy, report.format)
        assert again is new, second.changes
        done += 1
    assert done > 20


@pytest.mark.parametrize("name", FORMATS)
def test_what_names_a_kind_may_be_of_any_type(name: str) -> None:
    body = FORMATS[name](conversation(2, 1))
    kinds = {"type", "role", "kind", "part_kind", "status"}
    values: list[Any] = [[], [{key: ["text"] for key in kinds}]]
    for at in places(body)[1:]:
        broken = copy.deepcopy(body)
        holder = broken
        for step in at[:-1]:
            holder = holder[step]
        holder[at[-1]] = values[at[-1] not in kinds]
        with contextlib.suppress(CoatcheckError):
            new, report = compact(broken, POLICIES[0])
            assert compact(new, POLICIES[0], report.format)[0] is new


@pytest.mark.parametrize("name", FORMATS)
def test_a_body_named_as_another_format_is_compacted_or_refused(name: str) -> None:
    for named in Format:
        body = FORMATS[name](conversation(2))
        before = copy.deepcopy(body)
        try:
            new, _ = compact(body, POLICIES[0], named)
        except CoatcheckError:
            continue
        assert body == before
        assert compact(new, POLICIES[0], named)[0] is new


def test_nesting_without_end_is_refused_or_passed_by() -> None:
    deep: Any = "x" * 1_000
    for _ in range(5_000):
        deep = [deep]
    call = {"id": "c", "type": "function", "function": {"name": "write_file", "arguments": "[" * 5_000 + "]" * 5_000}}
    body = {
        "messages": [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "x"}]
    }
    assert compact(body, POLICIES[0])[0] is body
    for content in (deep, {"type": "tool_result", "content": deep}):
        history = {"messages": [{"role": "user", "content": [content]}]}
        if sys.version_info < (3, 12):  # later ones go deeper
            with pytest.raises(CoatcheckError):
                compact(history, POLICIES[0])
        else:
            assert compact(history, POLICIES[0])[0] is history
