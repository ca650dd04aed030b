"""What stands in a secret's place: nothing of it, whatever is cut, and every byte where it was."""

import base64
from random import Random

import msgspec
import pytest

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.artifact import DeclaredMetadata, DetectedMetadata, Kind, PayloadSample
from coatcheck.core.kinds import recognise
from coatcheck.core.redact.filler import SecretRange, fill, reveal
from coatcheck.core.redact.mask import Mask, reveal_text
from coatcheck.core.redact.masked_artifact import facts_of, mask_artifact, mask_declared, sections_of
from coatcheck.core.views.view import TITLE_CHARS, Section
from core.sample_payloads import sample_of, survey_of

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
BODY = "\n".join(f"MIIEpAIBAAKCAQEA7bq1Vx{n:02}QwErTyUiOpAsDfGhJkLzXcVbNm0123456789abcd" for n in range(20))
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"


@pytest.fixture(scope="session")
def mask() -> Mask:
    return Masks()()


def _shown(mask: Mask, data: bytes) -> str:
    return mask.reveal(mask.fill_secrets(data).decode())


def test_a_marker_names_the_rule_and_nothing_else(mask: Mask) -> None:
    assert _shown(mask, f"a {TOKEN} b {TOKEN}x, c".encode()) == "a [redacted: github-pat] b [redacted: github-pat], c"


def test_lines_bytes_and_characters_stay_where_they_were(mask: Mask) -> None:
    text = f"é {TOKEN}\n{KEY}\npostgres://me:pässwörd-1@db/x\nlast ü"
    data = text.encode()
    filled = mask.fill_secrets(data)
    assert len(filled) == len(data)
    assert len(filled.decode()) == len(text)
    assert [n for n, byte in enumerate(filled) if byte == 10] == [n for n, byte in enumerate(data) if byte == 10]
    assert _shown(mask, data) == (
        "é [redacted: github-pat]\n[redacted: private-key]\npostgres://me:[redacted]@db/x\nlast ü"
    )


def test_whatever_is_cut_neither_part_shows_anything_of_the_secret(mask: Mask) -> None:
    data = f"before {TOKEN} after".encode()
    filled = mask.fill_secrets(data).decode()
    for at in range(len(filled) + 1):
        left, right = (mask.reveal(part) for part in (filled[:at], filled[at:]))
        for part in (left, right):
            assert not any(TOKEN[n : n + 5] in part for n in range(len(TOKEN) - 5)), at
            assert "\x7f" not in part
        if 7 < at < 7 + len(TOKEN):
            assert left in {"before [redacted: github-pat]", "before [redacted]"}
            assert right in {"[redacted] after", "[redacted: github-pat] after"}


def _title(mask: Mask, title: str) -> str:
    section = Section(name="s1", title=title, level=1, start=0, end=9, line=1, lines=1)
    return sections_of(mask, (section,))[0].title


def test_the_title_of_a_section_that_was_cut_in_a_secret_shows_nothing_of_it(mask: Mask) -> None:
    path = "/".join(f"{n}{TOKEN[4:30]}" for n in range(9))
    webhook = f"https://acme.webhook.office.com/webhookb2/{path}"
    assert _title(mask, f"{webhook[: TITLE_CHARS - 1]}…") == "…"
    assert _title(mask, f"Post to {webhook}"[: TITLE_CHARS - 1] + "…") == "Post to …"
    assert _title(mask, "Post to us") == "Post to us"
    assert _title(mask, f"Use {TOKEN}") == "Use [redacted: github-pat]"


def test_a_payloads_own_del_does_not_pass_for_a_secret(mask: Mask) -> None:
    assert _shown(mask, b"a\x7f\x7f\x7fb") == "a???b"


@pytest.mark.parametrize("size", range(1, 9))
def test_a_secret_too_short_to_say_its_rule_is_masked_all_the_same(size: int) -> None:
    data = b"ab" + b"s" * size + b"cd"
    assert reveal(fill(data, [SecretRange(2, 2 + size, 3)]).decode(), ("a", "b", "c", "rule")) in {
        "ab[redacted]cd",
        "ab[redacted: rule]cd",
    }


def test_keys_are_masked_in_one_line_and_where_an_end_is_cut_off(mask: Mask) -> None:
    escaped = KEY.replace("\n", "\\n")
    assert _shown(mask, f'{{"k": "{escaped}"}}'.encode()) == '{"k": "[redacted: private-key]"}'
    cut = f"x\n{KEY[:700]}".encode()
    assert fill(cut, mask.find(cut, ends=False)).decode()[2:].strip("\x7f\n~^!*$+#-") == ""
    tail = KEY[700:].encode() + b"\nafter"
    assert mask.reveal(fill(tail, mask.find(tail, begins=False)).decode()).endswith("]\nafter")
    assert b"MIIE" not in fill(tail, mask.find(tail, begins=False))


def test_talk_about_keys_is_no_key(mask: Mask) -> None:
    text = "write -----BEGIN PRIVATE KEY----- and -----END PRIVATE KEY----- around <a very long private key string>"
    assert _shown(mask, text.encode()) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://app:s3cr3t@db:5432/x", "postgresql://app:[redacted: url-credentials]@db:5432/x"),
        ("https://user:password@example.com/", "https://user:password@example.com/"),
        ("https://${USER}:${PASS}@example.com/", "https://${USER}:${PASS}@example.com/"),
        ("git+ssh://git@github.com/a/b", "git+ssh://git@github.com/a/b"),
        ("Authorization: Bearer abcDEF123456789", "Authorization: Bearer [redacted: authorization-header]"),
        ("authorization: basic dXNlcjpwYXNzd29yZDE=", "authorization: basic [redacted: authorization-header]"),
        ("Authorization: Bearer YOUR_ACCESS_TOKEN", "Authorization: Bearer YOUR_ACCESS_TOKEN"),
        ("X-Api-Key: 0a1b2c3d4e5f60718293a4b5", "X-Api-Key: [redacted: header-key]"),
        ("https://h/p?a=1&access_token=abcd1234efgh5678&b=2", "https://h/p?a=1&access_token=[redacted: url-token]&b=2"),
        ("?token=example", "?token=example"),
    ],
)
def test_credentials_in_urls_and_headers(mask: Mask, text: str, expected: str) -> None:
    assert _shown(mask, text.encode()) == expected


def test_a_secret_in_base64_takes_all_of_the_run_with_it(mask: Mask) -> None:
    run = base64.b64encode(f"token is {TOKEN}, keep it".encode()).decode()
    assert _shown(mask, f"data: {run} end".encode()) == "data: [redacted: github-pat] end"
    plain = base64.b64encode(b"nothing to be seen here, walk on").decode()
    assert _shown(mask, f"data: {plain} end".encode()) == f"data: {plain} end"


def test_the_same_bytes_are_masked_alike_in_every_frame_of_a_sample(mask: Mask) -> None:
    filler = b"nothing of interest in this line\n" * 9_000
    sample = PayloadSample(filler + TOKEN[:20].encode(), TOKEN[20:].encode() + b"\n" + filler, 3 * len(filler))
    made, masked, _ = mask.sample(sample)
    assert masked.count == 0
    assert TOKEN[:20].encode() not in made.head
    assert TOKEN[20:].encode() not in made.tail
    assert mask.sample(sample) == (made, masked, ())


def test_a_sample_without_secrets_is_the_same_object(mask: Mask) -> None:
    sample = PayloadSample(b"plain text\n" * 100, b"", 1_100)
    assert mask.sample(sample)[0] is sample


def test_names_are_masked_and_a_beginning_that_was_cut_off_too(mask: Mask) -> None:
    said = DeclaredMetadata(title=f"run {TOKEN}", url=f"https://h/?q={TOKEN}", tool_name="make", labels=("a", TOKEN))
    assert mask_declared(mask, said) == DeclaredMetadata(
        title="run [redacted: github-pat]",
        url="https://h/?q=[redacted: github-pat]",
        tool_name="make",
        labels=("a", "[redacted: github-pat]"),
    )
    assert mask.text(f"a title that was cut in ghp_{TOKEN[4:20]}") == "a title that was cut in [redacted]"
    plain = DeclaredMetadata(title="nothing", labels=("b",))
    assert mask_declared(mask, plain) is plain


def test_values_of_records_between_the_ends_of_a_large_payload_are_not_told(mask: Mask) -> None:
    """A value that a fact cuts, or tells without the sign in front of it, would not be recognised."""
    lines = [{"id": n, "state": "up", "auth": "none"} for n in range(30_000)]
    lines[15_000] |= {"state": "failed", "auth": f"password={TOKEN}", "message": f"{'x' * 130} {TOKEN}"}
    named = "".join(f'<line id="{n}" auth="{(TOKEN, "none")[n % 3 > 0]}"/>' for n in range(20_000))
    for body in (msgspec.json.encode(lines), f"<list>{named}</list>".encode()):
        sample = sample_of(body)
        survey = survey_of(body)
        facts = recognise(sample, DeclaredMetadata(), survey)
        assert survey is not None
        assert any("ghp_" in line for line in facts.shape)
        made = mask_artifact(mask, DeclaredMetadata(), facts, sample, survey)
        assert "ghp_" not in " ".join(made.facts.shape)
        assert made.survey is not None
        assert made.survey.facts == ()
        assert made.facts.path != survey.path or survey.path is None


def test_what_was_recognised_is_recognised_again_without_the_secrets(mask: Mask) -> None:
    body = msgspec.json.encode({"a": TOKEN, TOKEN: 1, "list": [{"x": 1}] * 40})
    facts = DetectedMetadata(kind=Kind.JSON, shape=(f"$ object a; int {TOKEN[:30]}",), title=f"t {TOKEN[:24]}")
    made = mask_artifact(mask, DeclaredMetadata(), facts, PayloadSample(body, b"", len(body)))
    assert made.facts.kind is Kind.JSON
    assert "ghp_" not in msgspec.json.encode([made.facts, made.declared]).decode()
    assert b"ghp_" not in made.sample.head
    assert facts_of(mask, DetectedMetadata(kind=Kind.TEXT)) == DetectedMetadata(kind=Kind.TEXT)


def test_markers_never_make_a_text_longer_than_it_may_be(mask: Mask) -> None:
    tokenizer = load_tokenizer()
    data = " ".join(["AKIA" + "".join(Random(n).choices("ABCDEFGHIJKLMNOP234567", k=16)) for n in range(200)])
    filled = mask.fill_secrets(data.encode()).decode()
    most = tokenizer.count(filled)
    text, count = reveal_text(filled, mask, tokenizer, 500, 30_000)
    assert "AKIA" not in text
    assert count <= 500 or count <= most
