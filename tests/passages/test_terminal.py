"""What a terminal showed of bytes that were written to it."""

import random

import pytest

from coatcheck.core.text.visible_text import blank_hidden, hidden_ranges


@pytest.mark.parametrize(
    ("data", "visible"),
    [
        (b"plain\ntext\r\n", b"plain\ntext\r\n"),
        (b"10%\r20%\rdone\nnext\n", b"done\nnext\n"),
        (b"a\nold\rnew", b"a\nnew"),
        (b"end\r\r\nnext\n", b"end\r\r\nnext\n"),
        (b"old\rnew\r\nnext\n", b"new\r\nnext\n"),
        (b"one\rover\rthe other", b"the other"),
        (b"\x1b[1;31mred\x1b[0m \x1b[2K\x1b[3Aup\n", b"red up\n"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\n", b"textlink\n"),
        (b"\x1b(Bset\x1b=\n\x1b", b"set\n\x1b"),
        (b"x \x1b[31mold\rnew\n", b"new\n"),
    ],
)
def test_what_was_never_visible_is_known(data: bytes, visible: bytes) -> None:
    hidden = hidden_ranges(data)
    edges = [0, *(edge for span in hidden for edge in span), len(data)]
    assert b"".join(data[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)) == visible
    assert blank_hidden(data).replace(b" ", b"") == visible.replace(b" ", b"")


@pytest.mark.parametrize("seed", range(20))
def test_of_any_bytes_the_ranges_are_in_order_and_nothing_moves(seed: int) -> None:
    rng = random.Random(seed)
    data = bytes(rng.choice(b"\r\n\x1b[]m;0a \x07\\") for _ in range(3_000))
    hidden = hidden_ranges(data)
    edges = [edge for span in hidden for edge in span]
    assert edges == sorted(edges)
    shown = blank_hidden(data)
    assert len(shown) == len(data)
    assert shown.count(b"\n") == data.count(b"\n")
