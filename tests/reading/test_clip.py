import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.views.clip import ClipBudget, Cut, clip, clip_dump, clip_tokens
from coatcheck.core.views.window import decode, separates

pieces = st.lists(
    st.sampled_from(
        [b"a", b"word ", b"\n", b"\r\n", "é".encode(), "路".encode(), "👩‍👩‍👧".encode(), b"\x80", b"\xf0\x9f", b"\xff"]
    ),
    max_size=60,
).map(b"".join)
payloads = st.binary(max_size=80) | pieces
TOKENIZER = load_tokenizer()


@settings(max_examples=200)
@given(payloads, st.integers(1, 40), st.integers(1, 60), st.booleans(), st.booleans())
def test_a_clip_is_a_true_start_within_both_budgets(
    data: bytes, tokens: int, chars: int, whole: bool, by_line: bool
) -> None:
    got = clip(data, ClipBudget(tokens, chars), TOKENIZER, whole=whole, by_line=by_line)
    if got is None:
        assert not whole
        assert TOKENIZER.count(decode(data[:-4])) <= tokens + 4
        return
    assert got.text == decode(data[: got.end])
    assert got.tokens == TOKENIZER.count(got.text) <= tokens
    assert len(got.text) <= chars
    assert got.end > 0 or not data
    assert (got.limited_by is None) == (whole and got.end == len(data))
    if got.limited_by is not None and by_line and b"\n" in data[: got.end]:
        assert data[got.end - 1 : got.end] == b"\n"


@settings(max_examples=200)
@given(payloads.filter(bool), st.integers(0, 30), st.integers(1, 30), st.integers(16, 60))
def test_a_token_window_is_a_true_slice_that_moves_on(data: bytes, skip: int, want: int, tokens: int) -> None:
    got = clip_tokens([data], skip, want, ClipBudget(tokens, 1_000), TOKENIZER)
    ids = TOKENIZER.encode(decode(data))
    if got is None:
        assert skip >= len(ids)
        return
    assert got.text == decode(data[got.start : got.end])
    assert got.tokens == TOKENIZER.count(got.text)
    assert got.count >= 1
    if decode(data).encode() == data:
        assert data[got.start : got.end] == TOKENIZER.decode(ids[skip : skip + got.count])
        assert got.count <= want
        assert got.tokens <= tokens


@pytest.mark.parametrize(
    ("tokens", "chars", "limited_by"), [(0, 0, None), (1, 0, "max_tokens"), (0, 1, "max_characters")]
)
def test_what_takes_a_budget_exactly_is_whole_and_one_less_cuts_the_last_unit(
    tokens: int, chars: int, limited_by: Cut | None
) -> None:
    data = b" word" * 30
    budget, size = ClipBudget(30 - tokens, 150 - chars), 150 if limited_by is None else 145
    got, window = (
        clip(data, budget, TOKENIZER, whole=True, by_line=False),
        clip_tokens([data], 0, 30, budget, TOKENIZER),
    )
    assert got is not None
    assert window is not None
    assert (got.end, got.limited_by) == (size + 4 * chars, limited_by)
    assert (window.end, window.limited_by) == (size, limited_by)
    _, dump, count, _ = clip_dump(data, 0, ClipBudget(10_000, 10_000), TOKENIZER)
    shown, *_, limit = clip_dump(data, 0, ClipBudget(count - tokens, len(dump) - chars), TOKENIZER)
    assert (shown, limit) == (150 if limited_by is None else 144, limited_by)


@given(payloads, st.integers(0, 80))
def test_decoding_is_the_same_in_parts_where_it_separates(data: bytes, at: int) -> None:
    at = min(at, len(data))
    if separates(data, at):
        assert decode(data[:at]) + decode(data[at:]) == decode(data)
    assert any(separates(data, n) for n in range(max(0, at - 3), at + 1))
