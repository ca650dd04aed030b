"""Secrets that are written otherwise, and whole documents of every kind through the mask alone."""

import html
import json
from random import Random

import pytest

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.normal_form import normal_forms
from redact import documents, planted_secrets
from redact.documents import leaked

NAMED = 'adafruit_api_key = "1enlq2x2h5lrrhemw4y69wcwx96ej0x5"'


@pytest.fixture(scope="module")
def mask() -> Mask:
    return Masks()()


@pytest.mark.parametrize(
    "text",
    [
        f"<code>{html.escape(NAMED)}</code>",
        NAMED.replace('"', "&#34;"),
        f"<div data-props={html.escape(json.dumps(NAMED))!r}>",
        json.dumps(NAMED).replace("\\", "").replace('"', "\\u0022"),
        json.dumps(json.dumps(NAMED).replace('\\"', "\\u0022")),
        "&amp;" * 500 + html.escape(NAMED) + "&lt;" * 500,
        "x" * 5_000 + "&gt;" + "y" * 5_000 + html.escape(NAMED),
    ],
)
def test_a_secret_behind_quotes_that_are_written_out_is_masked_and_nothing_else(text: str, mask: Mask) -> None:
    shown = mask.fill_secrets(text.encode()).decode()
    assert len(shown) == len(text)
    secret = NAMED.split('"')[1]
    at = text.index(secret)
    assert secret[:8] not in shown
    assert (shown[:at], shown[at + len(secret) :]) == (text[:at], text[at + len(secret) :])


@pytest.mark.parametrize("seed", range(200))
def test_every_byte_as_it_reads_knows_its_place(seed: int) -> None:
    random = Random(seed)
    signs = [
        "&quot;",
        "&#39;",
        "&amp;",
        "&lt;",
        "&#xe9;",
        "\\u0022",
        "\x1b[31m",
        "\u200b",
        "%41",
        "=\n",
        "a\bb",
        "x\b_",
    ]
    text = "".join(random.choice([*signs, "c" * random.randint(1, 2_000), "\n", "&", "\\u9999"]) for _ in range(40))
    data = text.encode()
    forms = list(normal_forms(data))
    assert forms or not any(sign in text for sign in signs)
    before = data
    for read, steps in forms:
        step = steps[-1]
        for byte in range(len(read)):
            low, high = step.place(byte, byte + 1)
            # A byte that stands for itself, one that a sign is read as, or what separates pieces.
            assert before[low:high] == read[byte : byte + 1] or high - low > 1 or read[byte : byte + 1] in b"\n\xa7"
        whole = step.place(0, len(read))
        assert 0 <= whole[0] <= whole[1] <= len(before)
        before = read


@pytest.mark.parametrize(
    "text",
    [
        "+IL62Q~hS91zcV1JyXDRKqr35OcS0FglFe4kEs<",
        "x\n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 \nft",
        '+curl\n+-u\t "RMy:AAOU" \n next',
        '<add key="Password" value="Qk6pLxfTp" /><add key="Password" value="Zw8rBvmYc" />',
        (
            "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\nv1.0-"
            "e8d724d97db61990401e2845-7266d7a5e3c375b4071d2e035df4406b4bf5e317ff29efb6825e917093e06b9df34380ae16b7635a84294"
            "4689793f4e3ba4587b763585f3ca9718f11aa5f67953bb3083f5993f4e37b\n"
        ),
        html.escape('<add key="Password" value="Qk6pLxfTp" />'),
    ],
)
def test_what_got_through_once_is_masked(text: str, mask: Mask) -> None:
    shown = mask.fill_secrets(text.encode()).decode()
    for secret in ("IL62Q~hS91zc", "CJVRx_CAl9WJa3c", "AAOU", "Qk6pLxfTp", "Zw8rBvmYc", "e8d724d97db6"):
        assert secret not in shown


def test_nothing_of_a_secret_is_left_in_many_documents_of_every_kind(mask: Mask) -> None:
    random = Random(20261122)
    names, kinds = planted_secrets.names(), documents.kinds()
    for number in range(1_000):
        rules = [names[number % len(names)], *random.sample(names, random.randint(0, 2))]
        made = [planted_secrets.plant(rule, random) for rule in rules]
        kind = kinds[(number + number // len(kinds)) % len(kinds)]
        shown = mask.fill_secrets(documents.make(kind, [each.text for each in made], random).data).decode(
            "utf-8", "replace"
        )
        for each in made:
            for written in (each.secret, json.dumps(each.secret)[1:-1]):
                assert leaked(written, shown) is None, (kind, each)
