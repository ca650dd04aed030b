"""What was made fast gives what it gave: pages stripped, texts fingerprinted together, texts counted once."""

import random

import pytest

from coatcheck.core.passages import PassageScanner, Ranking, terms_of, weigh
from coatcheck.core.search.fold import fingerprint, fingerprint_texts
from coatcheck.core.search.frame import CachingTokenizer
from coatcheck.core.search.responses.markup import html_text
from search.responses import TOKENIZER, VOCABULARY, sentences


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one<script>if (a < b) { x('</p>') }</script>two</p>", "onetwo"),
        ("a<!-- <p> --> b <!-- never closed <p>c", "a b"),
        ("<nav><ul><li>x</li></ul><nav>y</nav>z</nav>kept", "kept"),
        ("<nav>never closed <p>kept</p>", "never closed\n\nkept"),
        ("<header><h1>Kept</h1></header><head-line>kept, too</head-line>", "# Kept\n\nkept, too"),
        ("<pre>one\n  two</pre>three\nfour", "one\ntwo\n\nthree four"),
        ("<table><tr><th>a</th><td>b</td></tr><tr><td></td><td>c</td></tr></table>", "a | b\n\nc"),
        ("<ul><li>one<li><li>two</ul>", "- one\n- two"),
        ("a < b and c > d &amp; e<br>f", "a < b and c > d & e\nf"),
        ("<P\nCLASS='x'>é\u00a0 \t x</P><svg><text>gone</text></svg>", "é x"),
        ("x<script>never closed", "x"),
        ("<scr<b>ipt>kept</b>", "<script>kept"),
    ],
    ids=str,
)
def test_a_page_is_read_as_its_readers_see_it(page: str, text: str) -> None:
    assert html_text(page) == text


def test_fingerprints_of_several_texts_are_those_of_each() -> None:
    rng = random.Random(3)
    texts = ["", "one two three", *(sentences(rng, language, 900) for language in VOCABULARY), "a b c d"]
    assert fingerprint_texts(texts) == [fingerprint(text) for text in texts]
    assert [len(each) > 0 for each in fingerprint_texts(texts)] == [False, False, *[True] * (len(texts) - 2)]


def test_a_text_is_counted_as_by_the_tokenizer_itself() -> None:
    counted = CachingTokenizer(TOKENIZER)
    for text in ("", "harbour", "港 提灯", "harbour"):
        assert counted.count(text) == TOKENIZER.count(text)
        assert counted.decode(counted.encode(text)) == text.encode()
    assert counted.name == TOKENIZER.name


def test_texts_apart_are_rated_by_nothing_but_themselves() -> None:
    asked = terms_of("copper bridge").terms
    texts = ["A bridge of copper.", "Nothing of the kind.", "One bridge.", ""]
    scanner = PassageScanner(asked)
    scanner.feed("\n".join(texts).encode(), last=True)
    scores = Ranking(asked, weigh(scanner.hits(), asked)).of_texts_apart(texts)
    assert scores[0] > scores[2] > scores[1] == scores[3] == 0.0
