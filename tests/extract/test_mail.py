"""Mail, mailboxes and saved pages: beside the library that wrote them, as a reader sees them, and hostile ones."""

# ruff: noqa: RUF001 - other languages are written with their own letters

import mailbox
import random
from email import message_from_bytes
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, default
from pathlib import Path

import pytest

from coatcheck.adapters.extract.documents import extract_document
from coatcheck.adapters.extract.wire import ExtractJob, check
from coatcheck.adapters.extract.workers import Worker
from coatcheck.core.artifact import DeclaredMetadata, Kind, PayloadSample
from coatcheck.core.kinds import recognise
from coatcheck.core.media import identify_written
from coatcheck.core.parts.form import find_form
from coatcheck.core.views.view import ExtractedText
from extract.office_files import sentence
from extract.sample_pages import check_sections
from media.formats import png
from media.views import text_of, view_of

TEXTS = {
    "utf-8": "Guten Tag, Ihre Rechnung über 250 € ist fällig. 日本 😀",
    "iso-8859-1": "Größe, Übung, façade, señor und Rückgabe der Mäntel an der Garderobe",
    "koi8-r": "Корабль вошёл в гавань, где его целый год ждали на причале",
    "shift_jis": "港は川のそばにあります。昔は船がここに着きました。",
    "iso-2022-jp": "港は川のそばにあります。今はとても静かです。",
    "gb18030": "港口位于河边。从前船只在这里停靠。现在这里很安静。",
}


def section(found: ExtractedText, title: str) -> str:
    """The text of the only section of this title, without its heading."""
    (part,) = [each for each in found.sections if each.title == title]
    return (found.text or b"")[part.start : part.end].decode().partition("\n")[2].strip()


def mail(subject: str = "Rechnung fällig", **headers: str) -> EmailMessage:
    made = EmailMessage(policy=default)
    made["From"] = Address("Ann Größe", "ann", "example.org")
    made["To"], made["Date"] = "bob@example.com", "Mon, 01 Jan 2024 10:00:00 +0000"
    made["Subject"], made["Message-ID"] = subject, "<1@example.org>"
    for name, value in headers.items():
        made[name] = value
    return made


BODIES = [
    (charset, transfer)
    for charset in TEXTS
    for transfer in (("7bit",) if charset == "iso-2022-jp" else ("base64", "quoted-printable", "8bit"))
]


@pytest.mark.parametrize(("charset", "transfer"), BODIES)
def test_a_body_is_read_in_its_encoding_and_its_charset(charset: str, transfer: str) -> None:
    text = TEXTS[charset]
    made = mail(text[:30])
    made.set_content(f"{text}\n{text}\n", charset=charset, cte=transfer)
    for data in (bytes(made), made.as_bytes(policy=SMTP)):
        found = view_of(data)
        assert section(found, "Text") == f"{text}\n{text}"
        first, *lines = text_of(found).splitlines()
        subject = str(message_from_bytes(data, policy=default)["subject"]).strip()
        assert first == f"Mail: from Ann Größe <ann@example.org>, subject {subject}, 1 part: text/plain"
        assert lines[:4] == [
            "From: Ann Größe <ann@example.org>",
            "To: bob@example.com",
            "Date: Mon, 01 Jan 2024 10:00:00 +0000",
            f"Subject: {subject}",
        ]
        assert "Message-ID: <1@example.org>" in section(found, "Other headers")
        assert not found.partial


@pytest.mark.parametrize("seed", range(12))
def test_every_part_is_shown_as_the_library_reads_it(seed: int) -> None:
    rng = random.Random(seed)
    made = mail(sentence(rng))
    made.set_content("\n".join(sentence(rng) for _ in range(9)), cte=rng.choice(("base64", "quoted-printable")))
    for number in range(rng.randrange(4)):
        made.add_attachment(f"{sentence(rng)}\n" * 3, subtype="csv", filename=f"größe {number}.csv")
    if rng.random() < 0.5:
        inner = mail(sentence(rng))
        inner.set_content(sentence(rng))
        made.add_attachment(inner)
    data = bytes(made)
    text, last = text_of(view_of(data)), 0
    for part in message_from_bytes(data, policy=default).walk():
        if part.get_content_maintype() == "text":
            content = str(part.get_content()).strip("\n")
            assert text.count(content) == 1
            last = text.index(content, last)
    check_sections(view_of(data).sections, text.encode())


def test_a_page_is_shown_where_it_says_more_than_the_text() -> None:
    page = "<html><body><h1>Offer</h1><p>Coats are stored for <b>three</b> days.</p></body></html>"
    only = mail()
    only.set_content(page, subtype="html")
    assert section(view_of(bytes(only)), "HTML") == "# Offer\n\nCoats are stored for three days."
    same, other = mail(), mail()
    same.set_content("Offer: coats are stored for three days. Coats, Offer.")
    other.set_content("This mail has a page.")
    for each in (same, other):
        each.add_alternative(page, subtype="html")
    assert section(view_of(bytes(same)), "HTML") == "[the same words as the text]"
    assert section(view_of(bytes(other)), "HTML") == "# Offer\n\nCoats are stored for three days."


def test_attachments_are_sections_by_name_type_and_size() -> None:
    made = mail()
    made.set_content("See below.")
    made.add_attachment(png(9, 8), maintype="image", subtype="png", filename="../../etc/größe.png")
    made.add_attachment("a,b\n1,2\n", subtype="csv", filename="rows.csv")
    found = view_of(bytes(made))
    assert (
        section(found, "Attachment: ../../etc/größe.png")
        == f"[image/png, PNG image, 9 x 8 pixels, {len(png(9, 8))} B: not shown]"
    )
    assert section(found, "Attachment: rows.csv") == "a,b\n1,2"
    assert text_of(found).partition("\n")[0].endswith("3 parts: text/plain, image/png, text/csv")


def test_a_bounce_shows_why_and_the_mail_that_came_back() -> None:
    back = mail("Hello")
    back.set_content("The words that came back.")
    status = b"Reporting-MTA: dns; mx.example.org\n\nFinal-Recipient: rfc822; x@example.org\n"
    status += b"Diagnostic-Code: smtp; 550-5.1.1 no such user\n"
    data = (
        b"Return-Path: <>\nFrom: MAILER-DAEMON@example.org\nTo: a@example.org\nSubject: failure\nMIME-Version: 1.0\n"
        b"Content-Type: multipart/report; report-type=delivery-status; boundary=BB\n\n"
        b"preamble\n--BB\n\nNot delivered.\n"
        b"--BB\nContent-Type: message/delivery-status\n\n"
        + status
        + b"\n--BB\nContent-Type: message/rfc822\n\n"
        + bytes(back)
        + b"\n--BB--\n"
    )
    found = view_of(data)
    assert "\n## Text\nNot delivered.\n" in text_of(found)
    assert "550-5.1.1 no such user" in section(found, "message/delivery-status")
    assert "The words that came back." in section(found, "Mail: Hello")
    levels = {each.title: each.level for each in found.sections}
    assert levels["Mail: Hello"] == 1


def test_each_mail_of_a_mailbox_is_a_section(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "box")
    for number in range(5):
        made = mail(f"Number {number} größer")
        made.set_content(f"From here to there: {number}\n\nFrom now on, ü\n", cte="8bit")
        box.add(mailbox.mboxMessage(made))
    box.close()
    found = view_of((tmp_path / "box").read_bytes())
    titles = [each.title for each in found.sections if each.level == 1]
    assert titles == [f"Mail {n + 1}: Number {n} größer" for n in range(5)]
    for number in range(5):
        assert f"From here to there: {number}\n\nFrom now on, ü\n" in section(found, titles[number])
    first = "Mailbox: 5 mails:\nMail 1: Number 0 größer, from Ann Größe <ann@example.org>\nMail 2: Number 1 größer, "
    assert text_of(found).startswith(first)
    long = view_of((tmp_path / "box").read_bytes() * 3)
    lines = text_of(long).partition("\n\n")[0].split("\n")
    assert (lines[0], len(lines)) == ("Mailbox: 15 mails, the first:", 13)


def test_a_saved_page_is_the_page_that_it_holds() -> None:
    data = (
        b"From: <Saved by Blink>\r\nSnapshot-Content-Location: https://example.org/tides\r\nSubject: Tides\r\n"
        b"Date: Mon, 1 Jan 2024 10:00:00 +0000\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/related; type="text/html"; boundary="B"\r\n\r\n--B\r\nContent-Type: text/html\r\n'
        b"Content-Transfer-Encoding: quoted-printable\r\nContent-Location: https://example.org/tides\r\n\r\n"
        b"<html><body><h1>Tides</h1>"
        b"<p>The tide is at its low=\r\nest at six, says the gr=C3=B6=C3=9Fte clock.</p></body></html>\r\n"
        b"--B\r\nContent-Type: text/css\r\n"
        b"Content-Location: https://example.org/a.css\r\n\r\np { margin: 0 }\r\n--B--\r\n"
    )
    known = identify_written(data, None)
    assert known is not None
    assert known.media_type == "multipart/related"
    found = view_of(data)
    assert text_of(found).startswith("Saved page, subject Tides, 2 parts: text/html\n")
    assert section(found, "Page") == "# Tides\n\nThe tide is at its lowest at six, says the größte clock."
    assert section(found, "Resources of the page") == "https://example.org/a.css [text/css, 15 B: not shown]"


NO_MAIL = {
    "a log": b"From: worker 1\nTo: worker 2\nmoved 3 coats\n\nDate: today\n",
    "settings": b"from: a@example.org\nto: b@example.org\nsubject: hello\ndate: now\n\nx: 1\n",
    "code": b"import email\n\nFrom: Final = 1\nTo: Final = 2\nSubject: Final = 3\nDate: Final = 4\n\n",
    "headers of HTTP": b"Date: Mon, 1 Jan 2024 10:00:00 GMT\nContent-Type: text/html\nServer: x\n\n<html>",
    "a list": b"From: here\nTo: there\n\nand on\n",
    "a package": b"Package: x\nVersion: 1\nMaintainer: Ann <a@e.org>\nDescription: y\n\n",
    "a patch": b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
    b"From: A <a@e.org>\nDate: Mon, 1 Jan 2024\n"
    b"Subject: [PATCH] x\n\n---\n a | 2 +-\n\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n",
    "a sentence": b"From the harbour of 1890 ships left.\nTo: x\n",
}


@pytest.mark.parametrize("name", NO_MAIL)
def test_what_only_mentions_senders_is_no_mail(name: str) -> None:
    data = NO_MAIL[name]
    facts = recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata())
    assert facts.kind is not Kind.DOCUMENT
    assert (facts.kind is Kind.DIFF) == (name == "a patch")


def test_what_is_declared_as_mail_needs_only_headers() -> None:
    data = b"X-Spam: no\nSubject: =?utf-8?q?gr=C3=B6=C3=9Fer?=\n\nwords\n"
    facts = recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata(media_type="message/rfc822"))
    assert (facts.kind, facts.title) == (Kind.DOCUMENT, "größer")
    assert recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata()).kind is not Kind.DOCUMENT


def test_a_cut_of_a_long_subject_is_marked() -> None:
    data = b"Subject: " + b"word " * 80 + b"\n\nwords\n"
    facts = recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata(media_type="message/rfc822"))
    assert facts.title is not None
    assert facts.title.endswith("word…")


@pytest.mark.parametrize("charset", ["ütf-8", "idna", "undefined", "no-charset", "utf-8?b?!?==?x"])
def test_a_mail_whose_headers_cannot_be_decoded_has_a_title_and_a_view(charset: str) -> None:
    subject = f"=?{charset}?b?w7xiZXI=?="
    part = f"--B\nContent-Disposition: attachment; filename*={charset}''%C3%A9.txt\n\nplain words\n--B--\n"
    head = f"From: a@e.org\nTo: b@e.org\nDate: x\nSubject: {subject}\nMIME-Version: 1.0\n"
    data = f"{head}Content-Type: multipart/mixed; boundary*={charset}''B\n\n{part}".encode()
    facts = recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata())
    assert (facts.kind, facts.title) == (Kind.DOCUMENT, subject)
    assert "plain words" in text_of(view_of(data))


def test_the_charset_of_a_mail_is_that_of_each_part() -> None:
    made = mail()
    made.set_content(TEXTS["koi8-r"], charset="koi8-r", cte="8bit")
    data = bytes(made)
    assert find_form(PayloadSample(data, b"", len(data)), None) is None
    control = data[data.index(b"\n\n") :]
    assert find_form(PayloadSample(control, b"", len(control)), None) is not None


ODD = {
    "no boundary": b"Content-Type: multipart/mixed\n\nplain words\n",
    "another boundary": b"Content-Type: multipart/mixed; boundary=B\n\n--C\n\nplain words\n--C--\n",
    "behind the last part": b"Content-Type: multipart/mixed; boundary=B\n\n--B\n\na\n--B--\nplain words\n",
    "no end": b"Content-Type: multipart/mixed; boundary=B\n\n--B\n\nplain words",
    "no empty line": b"Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/plain\nplain words\n--B--",
    "unknown encoding": b"Content-Transfer-Encoding: x-odd\nContent-Type: text/plain; charset=x-odd\n\nplain words\n",
    "uuencode": b"Content-Transfer-Encoding: x-uuencode\n\nbegin 644 a\n,<&QA:6X@=V]R9',*\n`\nend\n",
}


@pytest.mark.parametrize("name", ODD)
def test_no_words_of_an_odd_mail_are_lost(name: str) -> None:
    found = view_of(b"From: a@example.org\nTo: b@example.org\nSubject: x\n" + ODD[name])
    assert "plain words" in text_of(found)
    assert not found.partial


@pytest.mark.parametrize("seed", range(4))
def test_a_broken_mail_has_a_sound_view(seed: int) -> None:
    rng, made = random.Random(seed), mail()
    made.set_content("größer\n" * 9, cte=rng.choice(("base64", "quoted-printable")))
    made.add_attachment(png(9, 8), maintype="image", subtype="png", filename="größe.png")
    whole = bytes(made)
    for _ in range(60):
        data = bytearray(whole[: rng.randrange(len(whole) // 2, len(whole) + 1)])
        for _ in range(rng.choice((0, 1, 5, 30))):
            data[rng.randrange(len(data))] = rng.choice((0x0A, 0x3D, 0x3F, 0x3A, rng.randrange(256)))
        found = extract_document(bytes(data), 30.0, "message/rfc822")
        if found is not None:
            check(found, bytes(data))


HEAD = b"From: a@e.org\nTo: b@e.org\nSubject: x\nMIME-Version: 1.0\n"


def nested(depth: int) -> bytes:
    """A mail in a mail in a mail."""
    return (HEAD + b"Content-Type: message/rfc822\n\n") * depth + HEAD + b"\nat the bottom\n"


def boxes(depth: int) -> bytes:
    """Parts in parts."""
    inner = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(depth))
    return HEAD + inner + b"\nat the bottom\n"


HOSTILE = {
    "10,000 parts": lambda: (
        HEAD + b"Content-Type: multipart/mixed; boundary=B\n\n" + b"--B\n\nwords\n" * 10_000 + b"--B--\n"
    ),
    "empty parts": lambda: HEAD + b"Content-Type: multipart/mixed; boundary=B\n\n" + b"--B\n" * 2_000_000,
    "mail in mail": lambda: nested(2_000),
    "parts in parts": lambda: boxes(2_000),
    "a million headers": lambda: HEAD + b"X-A: b\n" * 1_000_000 + b"\nwords\n",
    "a long header": lambda: HEAD + b"X-A: " + b"=?utf-8?q?a?= " * 500_000 + b"\n\nwords\n",
    "a folded subject": lambda: HEAD + b"Cc:" + b" a@e.org,\n" * 200_000 + b"\nwords\n",
    "broken base64": lambda: HEAD + b"Content-Transfer-Encoding: base64\n\n" + b"A=" * 5_000_000,
    "a mailbox of many": lambda: (b"From a@e.org Mon Jan  1 10:00:00 2024\n" + HEAD + b"\nwords\n\n") * 20_000,
    "one long line": lambda: b"From a@e.org Mon Jan  1 10:00:00 2024\n" + HEAD + b"\n\nFrom " + b"2024 " * 2_000_000,
}
WHOLE = {"empty parts", "broken base64", "one long line", "a long header", "a folded subject", "a million headers"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_mail_is_read_within_the_limits_of_a_worker(name: str) -> None:
    payload = HOSTILE[name]()
    worker = Worker.start(1024**3)
    try:
        answer = worker.run(ExtractJob("document", None, None, payload, 30), 90)
    finally:
        worker.kill()
    assert answer.failed is None
    assert answer.peak < 700 * 1024**2
    assert answer.extracted is not None
    check(answer.extracted, payload)
    assert answer.extracted.partial or name in WHOLE
