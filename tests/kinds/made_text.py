"""Prose, pages, differences and binaries, made from given words and given files."""

# ruff: noqa: RUF001 - other languages are written with their own letters

import difflib
import gzip
import io
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from email.message import EmailMessage
from email.policy import SMTP, default
from random import Random
from typing import Final

from coatcheck.core.artifact import Kind
from kinds.corpus import Source

_SENTENCES: Final = {
    "german": "Der Hafen liegt am Fluss. Früher kamen hier die Schiffe an. Heute ist es ruhig; nur im Sommer nicht. "
    "Man erreicht ihn zu Fuß oder mit der Bahn. Die Häuser stammen aus dem Jahr 1890.",
    "french": "Le port se trouve au bord du fleuve. Autrefois les navires y arrivaient. Aujourd'hui tout est calme. "
    "On y va à pied ou en train. Les maisons datent de 1890.",
    "russian": "Порт стоит на реке. Раньше сюда приходили корабли. Сегодня здесь тихо. Дома построены в 1890 году. "
    "До него можно дойти пешком.",
    "chinese": "港口位于河边。从前船只在这里停靠。现在这里很安静，只有夏天例外。房子建于1890年。可以步行或乘火车前往。",
    "japanese": "港は川のそばにあります。昔は船がここに着きました。今はとても静かです。家は1890年に建てられました。",
    "arabic": "يقع الميناء على النهر. كانت السفن تصل إلى هنا. اليوم المكان هادئ. بنيت المنازل عام 1890.",
    "hindi": "बंदरगाह नदी के किनारे है। पहले यहाँ जहाज़ आते थे। आज यहाँ शांति है। मकान 1890 में बने थे।",
    "thai": "ท่าเรืออยู่ริมแม่น้ำ แต่ก่อนมีเรือมาที่นี่ วันนี้เงียบสงบ บ้านสร้างในปี 1890",
    "english": "The harbour lies on the river. Ships used to arrive here, and an error in the register of 1890 made it "
    "famous. Today it is quiet; see https://example.org/harbour for the class of ships. Return in summer. "
    'Import duties were paid at the gate, if at all. "Is it open?" she asked. He said: no.',
}


def prose(each: int = 6) -> Iterator[Source]:
    """Paragraphs in several languages, hard-wrapped, or a paragraph a line."""
    for language, text in _SENTENCES.items():
        sentences = re.split(r"(?<=[.;。।])\s*", text.strip())
        for number in range(each):
            rng = Random(f"{language}/{number}")
            paragraphs = [
                " ".join(rng.choice(sentences) for _ in range(rng.randrange(2, 12)))
                for _ in range(rng.choice((3, 30, 200)))
            ]
            if number % 2:
                paragraphs = [re.sub(r"(.{50,72}) ", r"\1\n", paragraph) for paragraph in paragraphs]
            yield Source(Kind.TEXT, "prose", f"{language}/{number}", "\n\n".join(paragraphs).encode())


def mails(each: int = 12) -> Iterator[Source]:
    """Mail as mailboxes and servers keep it, saved pages and rich text, with bodies in several encodings."""
    for language, text in _SENTENCES.items():
        for number in range(each):
            rng = Random(f"mail/{language}/{number}")
            mail = EmailMessage(policy=SMTP if number % 2 else default)
            if number % 3:
                mail["Received"] = f"from mx{number}.example.org by example.com; Mon, 1 Jan 2024 10:00:00 +0000"
            mail["From"], mail["To"] = f"Ann {number} <ann@example.org>", "bob@example.com"
            mail["Subject"], mail["Date"] = text[:40], "Mon, 1 Jan 2024 10:00:00 +0000"
            mail.set_content(text * rng.choice((1, 9)), cte=rng.choice(("base64", "quoted-printable", "8bit")))
            if number % 4 == 1:
                mail.add_alternative(f"<html><body><p>{text}</p></body></html>", subtype="html")
            if number % 4 == 2:
                mail.add_attachment(rng.randbytes(3000), maintype="application", subtype="pdf", filename="a.pdf")
            data, name = bytes(mail), f"{language}/{number}"
            yield Source(Kind.DOCUMENT, "mail", name, data)
            yield Source(Kind.DOCUMENT, "mbox", name, b"From ann@example.org Mon Jan  1 10:00:00 2024\n" + data * 3)
            words = "".join(char if char.isascii() else f"\\u{ord(char)}?" for char in text)
            yield Source(Kind.DOCUMENT, "rtf", name, b"{\\rtf1\\ansi " + words.encode() * rng.choice((2, 40)) + b"}")


_PARAGRAPH: Final = re.compile(r"(?:\A|\n\n)([A-Z][^\n`<|{}]{20,}(?:\n[A-Za-z(][^\n`<|{}]{10,})*[.:!?])(?=\n\n)")


def paragraphs(documents: Iterable[Source]) -> Iterator[Source]:
    """The running text of documents, without their headings, lists and code."""
    for document in documents:
        found = _PARAGRAPH.findall(document.data.decode("utf-8", "replace").replace("\r\n", "\n"))
        text = "\n\n".join(found)
        if len(found) > 5:
            yield Source(Kind.TEXT, "paragraphs", f"paragraphs of {document.name}", text.encode())


def pages(documents: Iterable[Source], each: int = 60) -> Iterator[Source]:
    """The same running text as a site would serve it."""
    for number, document in zip(range(each), paragraphs(documents), strict=False):
        rng = Random(document.name)
        body = document.data.decode().split("\n\n")
        menu = "".join(f'<li><a href="/{word}">{word}</a></li>' for word in ("home", "news", "about", "contact"))
        middle = "\n".join(
            f'<div class="card"><h3>Part {n}</h3><p>{text}</p></div>' if rng.random() < 0.2 else f"<p>{text}</p>"
            for n, text in enumerate(body)
        )
        head = f"<head><meta charset=utf-8><title>Page {number}</title><style>p{{margin:0}}</style></head>"
        form = number % 4
        if form == 0:
            page = f"<!DOCTYPE html>\n<html lang=en>{head}<body><ul>{menu}</ul><main>{middle}</main></body></html>"
        elif form == 1:
            page = f"<!-- served -->\n<html>\n{head}\n<body>\n<nav>{menu}</nav>\n{middle}\n<footer>(c)</footer></body>"
        elif form == 2:
            page = f'<div id="content"><ul class="menu">{menu}</ul>\n<article>{middle}</article></div>'
        else:
            page = f"<head><title>x</title></head><body><script>var a = {{b: 1}};</script>{middle}".replace("\n", "")
        yield Source(Kind.WEB_PAGE, f"page {form}", f"page {document.name}", page.encode())


def differences(documents: Iterable[Source], each: int = 60) -> Iterator[Source]:
    """What changed in a file, in the forms that programs print."""
    for number, document in zip(range(each), documents, strict=False):
        rng = Random(document.name)
        old = document.data[:100_000].decode("utf-8", "replace").splitlines()
        new = [line for line in old if rng.random() > 0.03]
        for _ in range(rng.randrange(1, 9)):
            new.insert(rng.randrange(len(new) + 1), rng.choice(old))
        a, b = f"a/{document.name}", f"b/{document.name}"
        unified = list(difflib.unified_diff(old, new, a, b, lineterm="", n=rng.choice((0, 1, 3, 8))))
        forms = {
            "git diff": [f"diff --git {a} {b}", "index 3f1c2aa..9d0e7b1 100644", *unified],
            "unified": unified,
            "svn diff": [f"Index: {document.name}", "=" * 67, *unified],
            "context diff": list(difflib.context_diff(old, new, a, b, lineterm="")),
            "git show": [
                f"commit {rng.randbytes(20).hex()}",
                "Author: Ann <ann@example.org>",
                "Date:   Sun Mar 1 08:00:00 2026 +0000",
                "",
                "    Change what must change",
                "",
                f"diff --git {a} {b}",
                "index 3f1c2aa..9d0e7b1 100644",
                *unified,
            ],
        }
        name = list(forms)[number % len(forms)]
        yield Source(Kind.DIFF, name, f"{name} {document.name}", "\n".join(forms[name]).encode())


def numbered(documents: Iterable[Source], each: int = 40) -> Iterator[Source]:
    """Files as a reader's tool shows them: with line numbers."""
    styles = ("{:6}\t{}", "{:>6}→{}", "{}: {}", "{:4} | {}", "{}:{}")
    for number, document in zip(range(each), documents, strict=False):
        lines = document.data.decode("utf-8", "replace").splitlines()
        style = styles[number % len(styles)]
        first = Random(document.name).choice((1, 1, 40, 300))
        shown = "\n".join(style.format(n, line) for n, line in enumerate(lines, first))
        yield Source(Kind.CODE_OR_FILE, "numbered", f"numbered {number % len(styles)} {document.name}", shown.encode())


def png(width: int, height: int, rng: Random) -> bytes:
    """A real picture of noise."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + rng.randbytes(width * 3) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def binaries(documents: list[Source]) -> Iterator[Source]:
    """Pictures, archives and noise."""
    for number in range(20):
        rng = Random(f"binary/{number}")
        yield Source(Kind.IMAGE, "made png", f"png/{number}", png(9 + number, 7 + number, rng))
        gif = b"GIF89a" + struct.pack("<HH", 9, 9) + b"\x80\0\0\0\0\0\xff\xff\xff" + rng.randbytes(300)
        yield Source(Kind.IMAGE, "made gif", f"gif/{number}", gif)
        jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xc0\x00\x11\x08\0\x20\0\x30" + rng.randbytes(400)
        yield Source(Kind.IMAGE, "made jpeg", f"jpeg/{number}", jpeg)
        webp = b"RIFF" + struct.pack("<I", 900) + b"WEBPVP8X\n\0\0\0\0\0\0\0\x1f\x03\0\x57\x02\0" + rng.randbytes(300)
        yield Source(Kind.IMAGE, "made webp", f"webp/{number}", webp)
        bmp = b"BM" + struct.pack("<IIIIiiHH", 900, 0, 54, 40, 17, -9, 1, 24) + bytes(24) + rng.randbytes(400)
        yield Source(Kind.IMAGE, "made bmp", f"bmp/{number}", bmp)
        yield Source(Kind.BINARY, "noise", f"noise/{number}", rng.randbytes(rng.randrange(300, 9000)))
        some = rng.sample(documents, min(3, len(documents)))
        yield Source(Kind.BINARY, "made gzip", f"gzip/{number}", gzip.compress(some[0].data, mtime=0))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for document in some:
                archive.writestr(zipfile.ZipInfo(document.name), document.data)
        yield Source(Kind.BINARY, "made zip", f"zip/{number}", packed.getvalue())
        rolled = io.BytesIO()
        with tarfile.open(fileobj=rolled, mode="w") as tar:
            for document in some:
                entry = tarfile.TarInfo(document.name)
                entry.size = len(document.data)
                tar.addfile(entry, io.BytesIO(document.data))
        yield Source(Kind.BINARY, "made tar", f"tar/{number}", rolled.getvalue())
        records = b"".join(struct.pack("<IdI", n, rng.random(), rng.randrange(99)) for n in range(200))
        yield Source(Kind.BINARY, "records", f"records/{number}", records)
