"""Counting and cutting in tokens: exact where promised, bounded everywhere."""

# ruff: noqa: RUF001 - full-width punctuation is what Chinese is written with

import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.adapters.tokenizer import OnDemandTokenizer, load_tokenizer
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.text.count import EXACT_BYTES, Checkpoint, TokenIndexer, TokenMeter, count_pieces
from coatcheck.core.text.excerpt import fit_text, head, last_safe, tail
from coatcheck_client.contract.answers import TokenCount
from core.sample_payloads import HOSTILE, ORDINARY, TOKENIZER, log

EVERYTHING = {**ORDINARY, **HOSTILE}
CL100K = load_tokenizer("cl100k_base")


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def test_the_encodings_are_the_known_ones() -> None:
    assert TOKENIZER.encode("hello world, 数据 👍") == [24912, 2375, 11, 108502, 160433]
    assert CL100K.encode("hello world") == [15339, 1917]
    assert (TOKENIZER.name, CL100K.name) == ("o200k_base", "cl100k_base")
    assert load_tokenizer("o200k_harmony") is TOKENIZER


def test_an_unknown_encoding_is_refused_by_name() -> None:
    with pytest.raises(CoatcheckError) as refused:
        load_tokenizer("p50k\n")
    assert (refused.value.code, "o200k_base" in refused.value.detail) == (Code.INVALID_REQUEST, True)


def test_an_encoding_is_loaded_once_for_all_threads() -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(load_tokenizer("cl100k_base"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CL100K] * 8


def test_an_encoding_on_demand_is_loaded_by_its_first_use_and_is_the_same() -> None:
    lazy, exact = OnDemandTokenizer(), load_tokenizer()
    assert (lazy.name, lazy.is_loaded) == (exact.name, False)
    text = "All coats 👍 in one place."
    assert lazy.count(text) == exact.count(text)
    assert lazy.is_loaded
    assert lazy.decode(lazy.encode(text)) == text.encode()
    assert (lazy.encode(text), lazy.ends(text).tolist()) == (exact.encode(text), exact.ends(text).tolist())


def test_special_tokens_in_text_are_text() -> None:
    assert TOKENIZER.count("<|endoftext|>") == 7
    assert TOKENIZER.decode(TOKENIZER.encode("a<|endoftext|>b")) == b"a<|endoftext|>b"


def test_what_the_encoder_cannot_take_is_counted_all_the_same() -> None:
    assert TOKENIZER.count(" " * 1_500_000) == pytest.approx(1_500_000 / 128, rel=0.01)
    assert TOKENIZER.count("a\ud800b") == TOKENIZER.count("a\ufffdb")
    assert TOKENIZER.decode(TOKENIZER.encode(" " * 250_001 + "x")) == b" " * 250_001 + b"x"


WORDS = st.sampled_from(
    [
        "a",
        " b",
        "\n",
        "\n\n",
        "/",
        "\t",
        "  ",
        "'s",
        "'",
        "Don't",
        "123",
        "é",
        "数据",
        "。",
        "，",
        "\u3000",
        "\u00a0",
        "²",
        "①",
        "👍",
        "x/y",
        "A1",
        "{",
        "};\n",
        "\r\n",
        "ß",
    ]
)


@given(st.lists(WORDS, min_size=2, max_size=60).map("".join), st.integers(1, 200))
def test_counts_add_up_at_every_safe_cut_in_both_encodings(text: str, high: int) -> None:
    data = text.encode()
    cut = last_safe(data, 0, min(high, len(data) - 1))
    if cut is None:
        return
    for tokenizer in (TOKENIZER, CL100K):
        assert tokenizer.count(data[:cut].decode()) + tokenizer.count(data[cut:].decode()) == tokenizer.count(text)


@pytest.mark.parametrize(
    "name", ["log", "page", "json", "csv", "code", "chinese", "arabic", "megabytes of log", "base64"]
)
def test_counting_in_pieces_is_exact(name: str) -> None:
    data = EVERYTHING[name][0]
    assert count_pieces(data, TOKENIZER) == TokenCount(TOKENIZER.count(decoded(data)), exact=True)


def test_one_enormous_word_is_counted_in_bounded_pieces_and_marked() -> None:
    counted = count_pieces(b"a" * 300_000, TOKENIZER)
    assert not counted.exact
    assert counted.count == pytest.approx(37_500, rel=0.01)


def test_a_meter_is_exact_up_to_256_kib_and_says_when_it_is_not() -> None:
    data = log(20_000)
    for size, exact in ((0, True), (1000, True), (EXACT_BYTES, True), (EXACT_BYTES + 1, False)):
        meter = TokenMeter(TOKENIZER)
        meter.feed(data[:size])
        found = meter.finish()
        assert found.exact is exact
        assert found.count == pytest.approx(count_pieces(data[:size], TOKENIZER).count, rel=0 if exact else 0.03)


@pytest.mark.parametrize("name", ["megabytes of log", "one long line", "a million spaces", "invalid utf-8", "log"])
def test_a_meter_does_not_depend_on_how_bytes_arrive(name: str) -> None:
    data = EVERYTHING[name][0]
    whole = TokenMeter(TOKENIZER)
    whole.feed(data)
    rng = random.Random(5)
    pieces = TokenMeter(TOKENIZER)
    at = 0
    while at < len(data):
        size = rng.choice([1, 1000, 4096, 65_536, 300_000])
        pieces.feed(data[at : at + size])
        at += size
    assert pieces.finish() == whole.finish()


def test_an_index_gives_exact_counts_at_every_checkpoint_and_resumes() -> None:
    data = log(9000)
    indexer = TokenIndexer(TOKENIZER)
    found = [point for at in range(0, len(data), 50_000) for point in indexer.feed(data[at : at + 50_000])]
    total = indexer.finish()
    assert found == [Checkpoint(p.byte, TOKENIZER.count(decoded(data[: p.byte]))) for p in found]
    assert [65_536 * n - p.byte for n, p in enumerate(found, 1)] == pytest.approx([0] * len(found), abs=1000)
    resumed = TokenIndexer(TOKENIZER, resume=found[2])
    later = resumed.feed(data[found[2].byte :])
    assert (later[0], resumed.finish(), total) == (
        found[3],
        total,
        TokenCount(TOKENIZER.count(decoded(data)), exact=True),
    )


@pytest.mark.parametrize("name", EVERYTHING)
def test_heads_and_tails_are_true_and_within_budget(name: str) -> None:
    data = EVERYTHING[name][0][:300_000]
    for budget in (0, 1, 7, 100, 900):
        first, last = head(data, budget, TOKENIZER), tail(data, budget, TOKENIZER)
        assert data.startswith(first)
        assert data.endswith(last)
        assert TOKENIZER.count(decoded(first)) <= budget
        assert TOKENIZER.count(decoded(last)) <= budget


def test_heads_and_tails_do_not_split_characters_or_graphemes() -> None:
    family = "👩‍👩‍👧‍👦"
    data = (family * 200).encode()
    for budget in range(20, 120, 7):
        assert set(head(data, budget, TOKENIZER).decode().replace(family, "")) == set()
        assert set(tail(data, budget, TOKENIZER).decode().replace(family, "")) == set()


def test_heads_and_tails_end_with_whole_lines_where_that_is_cheap() -> None:
    data = b"".join(b"line number %d\n" % n for n in range(1000))
    assert head(data, 100, TOKENIZER).endswith(b"\n")
    assert tail(data, 100, TOKENIZER).startswith(b"line number ")


def test_a_fitted_text_is_whole_or_marked() -> None:
    assert fit_text("short", 10, TOKENIZER) == "short"
    clipped = fit_text("word " * 500, 10, TOKENIZER)
    assert clipped.endswith("…")
    assert TOKENIZER.count(clipped) <= 10
    assert fit_text("word", 0, TOKENIZER) == ""
