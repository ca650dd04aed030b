"""Every state of the write and delete protocol, explored: three writers of the same content, a deleter, two sweepers,
a reaper, an audit, and a crash at any step.

The model is the prose of the ports: each transition is one transaction or one system call. It shows that the order is
right; that the code keeps to the order is for the other tests here.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")

WRITERS = (0, 1, 2)
SWEEPERS = (0, 1)

# What a writer does next.
BEGIN, WRITE, COMMIT, CLEAN, ENDED = range(5)
# A blob's row.
NONE, LIVE, DEAD = range(3)


class State(NamedTuple):
    """One moment. Blob number i is the one that writer i would make; artifact i is what it posts."""

    steps: tuple[int, ...] = (BEGIN,) * 3
    intents: tuple[bool, ...] = (False,) * 3
    files: tuple[bool, ...] = (False,) * 3
    rows: tuple[int, ...] = (NONE,) * 3
    artifacts: tuple[int | None, ...] = (None,) * 3
    """The blob that each artifact points at."""
    sweeping: tuple[int | None, ...] = (None,) * 2
    """The blob whose file each sweeper has removed, its row not yet."""


def put(values: tuple[T, ...], i: int, value: T) -> tuple[T, ...]:
    """The tuple with one element changed."""
    return (*values[:i], value, *values[i + 1 :])


def writes(state: State, i: int, *, fence: bool) -> Iterator[State]:
    """A writer's next step, or its crash."""
    step = state.steps[i]
    if step == ENDED:
        return
    ahead = state._replace(steps=put(state.steps, i, step + 1))
    if step == BEGIN:
        yield ahead._replace(intents=put(state.intents, i, True))
    elif step == WRITE:
        yield ahead._replace(files=put(state.files, i, True))
    elif step == COMMIT:
        yield commits(ahead, i, fence=fence)
    elif step == CLEAN:
        yield ahead._replace(files=put(state.files, i, False))
    if step != BEGIN:
        yield state._replace(steps=put(state.steps, i, ENDED))


def commits(state: State, i: int, *, fence: bool) -> State:
    """The one transaction: fence, fold, insert. `state.steps[i]` is CLEAN already."""
    if fence and not state.intents[i]:
        return state
    state = state._replace(intents=put(state.intents, i, False))
    same = next((blob for blob in WRITERS if state.rows[blob] == LIVE), None)
    if same is not None:
        return state._replace(artifacts=put(state.artifacts, i, same))
    return state._replace(
        steps=put(state.steps, i, ENDED),
        rows=put(state.rows, i, LIVE),
        artifacts=put(state.artifacts, i, i),
    )


def deletes(state: State) -> Iterator[State]:
    """An artifact goes, and its blob dies if nothing else points at it."""
    for i, blob in enumerate(state.artifacts):
        if blob is not None:
            artifacts = put(state.artifacts, i, None)
            rows = state.rows if blob in artifacts else put(state.rows, blob, DEAD)
            yield state._replace(artifacts=artifacts, rows=rows)


def sweeps(state: State) -> Iterator[State]:
    """Bytes first, row second; a sweeper may crash between, and two may take the same blob."""
    for s in SWEEPERS:
        blob = state.sweeping[s]
        if blob is None:
            for b in WRITERS:
                if state.rows[b] == DEAD:
                    yield state._replace(files=put(state.files, b, False), sweeping=put(state.sweeping, s, b))
        else:
            stop = state._replace(sweeping=put(state.sweeping, s, None))
            yield stop
            yield stop._replace(rows=put(state.rows, blob, NONE)) if state.rows[blob] == DEAD else stop


def reaps(state: State) -> Iterator[State]:
    """A lease passes, whether its writer lives or not."""
    for i in WRITERS:
        if state.intents[i]:
            yield state._replace(intents=put(state.intents, i, False), rows=put(state.rows, i, DEAD))


def audits(state: State) -> Iterator[State]:
    """A file that no row knows and that is older than any writer lives."""
    for i in WRITERS:
        if state.files[i] and state.steps[i] == ENDED and not state.intents[i] and state.rows[i] == NONE:
            yield state._replace(files=put(state.files, i, False))


def upkeep(state: State) -> Iterator[State]:
    """What goes on by itself when no request is left."""
    yield from sweeps(state)
    yield from reaps(state)
    yield from audits(state)


def explore(*, fence: bool) -> Iterator[State]:
    """Every state that can be reached, once."""
    seen = {State()}
    ahead = [State()]
    while ahead:
        state = ahead.pop()
        yield state
        following = [*deletes(state), *upkeep(state)]
        for i in WRITERS:
            following += writes(state, i, fence=fence)
        fresh = set(following) - seen
        seen |= fresh
        ahead += fresh


def unsafe(state: State) -> bool:
    """A visible artifact lacks its bytes or a live row."""
    return any(blob is not None and not (state.files[blob] and state.rows[blob] == LIVE) for blob in state.artifacts)


def leaking(state: State) -> bool:
    """Everybody has finished, nothing is left for the upkeep to do, and something unreferenced remains."""
    if any(step != ENDED for step in state.steps) or any(nxt != state for nxt in upkeep(state)):
        return False
    return any(
        state.intents[i] or ((state.files[i] or state.rows[i] != NONE) and i not in state.artifacts) for i in WRITERS
    )


def test_no_order_of_steps_and_crashes_loses_a_visible_artifact_or_leaves_bytes_for_ever() -> None:
    states = list(explore(fence=True))
    assert len(states) == 69_475
    assert [state for state in states if unsafe(state)] == []
    assert [state for state in states if leaking(state)] == []


def test_without_the_fence_the_same_exploration_finds_lost_bytes() -> None:
    assert any(unsafe(state) for state in explore(fence=False))
