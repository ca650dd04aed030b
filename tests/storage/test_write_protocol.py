"""Every state of the write and delete protocol, explored: three writers of the same content, a deleter, two sweepers,
a reaper, an audit, and a crash at any step; once more with a disk that loses a file, which somebody notices; and once
more with a writer whose bytes are a view of what one posts and the payload of what another one does.

The model is the prose of the ports: each transition is one transaction or one system call. It shows that the order is
right; that the code keeps to the order is for the other tests here.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import pytest

T = TypeVar("T")

WRITERS = (0, 1, 2)
SWEEPERS = (0, 1)
VIEW = WRITERS[-1]

# What a writer does next.
BEGIN, WRITE, COMMIT, CLEAN, ENDED = range(5)
# A blob's row.
NONE, LIVE, DEAD, CONDEMNED = range(4)


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
    lost: int | None = None
    """The blob whose file the disk has lost."""
    relied: bool = False
    """Whether a commit ever pointed at a blob that was condemned already."""
    viewed: int | None = None
    """The artifact of which the last writer's bytes are a view, and whose own content is another one; None: it posts an
    artifact as the others do."""


def put(values: tuple[T, ...], i: int, value: T) -> tuple[T, ...]:
    """The tuple with one element changed."""
    return (*values[:i], value, *values[i + 1 :])


def writes(state: State, i: int, *, fence: bool, heed: bool) -> Iterator[State]:
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
        yield commits(ahead, i, fence=fence, heed=heed)
    elif step == CLEAN:
        yield ahead._replace(files=put(state.files, i, False))
    if step != BEGIN:
        yield state._replace(steps=put(state.steps, i, ENDED))


def commits(state: State, i: int, *, fence: bool, heed: bool) -> State:
    """The one transaction: fence, fold, insert, heal. `state.steps[i]` is CLEAN already."""
    if fence and not state.intents[i]:
        return state
    state = state._replace(intents=put(state.intents, i, False))
    if i == VIEW and state.viewed is not None and state.artifacts[state.viewed] is None:
        return state
    foldable = (LIVE,) if heed else (LIVE, CONDEMNED)
    same = next((blob for blob in WRITERS if state.rows[blob] in foldable and alike(state, blob, i)), None)
    if same is None:
        state = state._replace(steps=put(state.steps, i, ENDED), rows=put(state.rows, i, LIVE))
    whole = i if same is None else same
    state = state._replace(
        artifacts=put(state.artifacts, i, whole), relied=state.relied or state.rows[whole] == CONDEMNED
    )
    return heals(state, whole) if heed else state


def heals(state: State, whole: int) -> State:
    """Whatever points at a condemned blob of this content points at the trusted one now, and the condemned one dies."""
    condemned = [blob for blob in WRITERS if state.rows[blob] == CONDEMNED and alike(state, blob, whole)]
    return state._replace(
        artifacts=tuple(whole if blob in condemned else blob for blob in state.artifacts),
        rows=tuple(DEAD if blob in condemned else row for blob, row in enumerate(state.rows)),
    )


def alike(state: State, one: int, other: int) -> bool:
    """Whether two blobs have the same content."""
    return (one == state.viewed) == (other == state.viewed)


def losses(state: State) -> Iterator[State]:
    """The disk loses a file that a row promises, once; somebody who misses it condemns the blob."""
    for blob in WRITERS:
        if state.lost is None and state.rows[blob] == LIVE and state.files[blob]:
            yield state._replace(files=put(state.files, blob, False), lost=blob)
        if state.rows[blob] == LIVE and not state.files[blob]:
            yield state._replace(rows=put(state.rows, blob, CONDEMNED))


def deletes(state: State, *, with_views: bool = True) -> Iterator[State]:
    """An artifact goes, with its view, and their blobs die if nothing else points at them."""
    for i in WRITERS:
        if state.artifacts[i] is None or (i == VIEW and state.viewed is not None):
            continue
        artifacts = put(state.artifacts, i, None)
        if i == state.viewed and with_views:
            artifacts = put(artifacts, VIEW, None)
        left = set(state.artifacts) - set(artifacts)
        rows = tuple(DEAD if blob in left else row for blob, row in enumerate(state.rows))
        yield state._replace(artifacts=artifacts, rows=rows)


def sweeps(state: State) -> Iterator[State]:
    """Bytes first, row second; a sweeper may crash between, and two may take the same blob."""
    for s in range(len(state.sweeping)):
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


def explore(
    *,
    fence: bool = True,
    heed: bool = True,
    lossy: bool = False,
    sweepers: int = len(SWEEPERS),
    viewed: int | None = None,
    with_views: bool = True,
) -> Iterator[State]:
    """Every state that can be reached, once."""
    first = State(sweeping=(None,) * sweepers, viewed=viewed)
    seen = {first}
    ahead = [first]
    while ahead:
        state = ahead.pop()
        yield state
        following = [*deletes(state, with_views=with_views), *upkeep(state)]
        for i in WRITERS:
            following += writes(state, i, fence=fence, heed=heed)
        if lossy:
            following += losses(state)
        fresh = set(following) - seen
        seen |= fresh
        ahead += fresh


def unsafe(state: State) -> bool:
    """A visible artifact lacks a row, or bytes that the disk did not lose, or was made on what was known to be lost."""
    return state.relied or any(
        blob is not None
        and (state.rows[blob] not in {LIVE, CONDEMNED} or not (state.files[blob] or state.lost == blob))
        for blob in state.artifacts
    )


def leaking(state: State) -> bool:
    """Everybody has finished, nothing is left for the upkeep to do, and something unreferenced remains."""
    if any(step != ENDED for step in state.steps) or any(nxt != state for nxt in upkeep(state)):
        return False
    if state.viewed is not None and state.artifacts[VIEW] is not None and state.artifacts[state.viewed] is None:
        return True
    return any(
        state.intents[i] or ((state.files[i] or state.rows[i] != NONE) and i not in state.artifacts) for i in WRITERS
    )


def unhealed(state: State) -> bool:
    """An artifact still points at a condemned blob although its content is stored again and trusted."""
    return LIVE in state.rows and any(b is not None and state.rows[b] == CONDEMNED for b in state.artifacts)


def test_no_order_of_steps_and_crashes_loses_a_visible_artifact_or_leaves_bytes_for_ever() -> None:
    states = list(explore())
    assert len(states) == 69_475
    assert [state for state in states if unsafe(state)] == []
    assert [state for state in states if leaking(state)] == []


def test_a_file_that_the_disk_loses_is_healed_by_the_next_post_and_costs_nothing_else() -> None:
    states = list(explore(lossy=True, sweepers=1))
    assert len(states) == 29_392
    assert any(CONDEMNED in state.rows for state in states)
    assert [state for state in states if unsafe(state)] == []
    assert [state for state in states if unhealed(state)] == []
    assert [state for state in states if leaking(state)] == []


def test_without_the_fence_the_same_exploration_finds_lost_bytes() -> None:
    assert any(unsafe(state) for state in explore(fence=False))


def test_if_a_condemned_blob_were_folded_into_the_exploration_finds_an_artifact_that_relies_on_it() -> None:
    assert any(unsafe(state) for state in explore(heed=False, lossy=True, sweepers=1))


@pytest.mark.parametrize("lossy", [False, True])
def test_bytes_of_a_view_are_as_safe_as_those_of_a_payload_and_go_with_its_artifact(lossy: bool) -> None:
    states = list(explore(viewed=0, lossy=lossy, sweepers=1))
    assert {state.artifacts[VIEW] for state in states} == {None, 1, VIEW}
    assert [state for state in states if unsafe(state)] == []
    assert [state for state in states if leaking(state)] == []


def test_if_a_deletion_left_the_view_behind_the_exploration_finds_it() -> None:
    assert any(leaking(state) for state in explore(viewed=0, with_views=False, sweepers=1))
