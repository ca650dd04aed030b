"""Images, sounds, archives, packed files, and bytes of no format."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable, Iterator
from email.message import EmailMessage

from coatcheck.core.artifact import Kind
from facts.cases import Case
from facts.says_media import ArchiveOracle, HeaderOracle

_BINARY, _IMAGE = (Kind.BINARY,), (Kind.IMAGE,)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def images(rng: random.Random, count: int) -> Iterator[Case]:
    """PNG, GIF, JPEG with other segments before the frame, BMP."""
    for number in range(count):
        width, height = rng.randint(1, 9_000), rng.randint(1, 9_000)
        rest = rng.randbytes(rng.randrange(900))
        if number % 4 == 0:
            name, data = (
                "PNG image",
                b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + rest,
            )
        elif number % 4 == 1:
            name, data = (
                "GIF image",
                rng.choice([b"GIF87a", b"GIF89a"]) + struct.pack("<HHBBB", width, height, 0, 0, 0) + rest,
            )
        elif number % 4 == 2:
            segments = b"".join(
                b"\xff" + bytes([code]) + struct.pack(">H", 2 + size) + rng.randbytes(size)
                for code, size in ((0xE0, 14), (0xE1, rng.randrange(2, 600)), (0xDB, 65), (0xC4, 20))
            )
            name, data = (
                "JPEG image",
                b"\xff\xd8" + segments + b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9) + rest,
            )
        else:
            name, data = (
                "BMP image",
                b"BM" + struct.pack("<IIIIiiHH", 54 + len(rest), 0, 54, 40, width, -height, 1, 24) + bytes(24) + rest,
            )
        yield Case(data, (HeaderOracle(name, f"{width} x {height} pixels"),), kinds=_IMAGE)


def sounds(rng: random.Random, count: int) -> Iterator[Case]:
    """WAV files, as `wave` writes them and reads them."""
    for _ in range(count):
        out = io.BytesIO()
        with wave.open(out, "wb") as sound:
            sound.setnchannels(rng.choice([1, 2]))
            sound.setsampwidth(rng.choice([1, 2]))
            sound.setframerate(rng.choice([200, 400, 800]))
            sound.writeframes(bytes(4 * rng.randint(20, 9_000)))
        with wave.open(io.BytesIO(out.getvalue())) as sound:
            seconds = sound.getnframes() / sound.getframerate()
        whole = round(seconds)
        told = f"{seconds:.1f} seconds" if whole < 60 else f"{whole // 60}:{whole % 60:02} minutes"
        yield Case(out.getvalue(), (HeaderOracle("WAV audio", told),), kinds=_BINARY)


def _files(rng: random.Random) -> list[tuple[str, bytes]]:
    endings = ("txt", "py", "md", "bin")
    folders = ("", "src/", "a b/", "größe/", "x; y/", "deep/" * 40)
    return [
        (
            f"{rng.choice(folders)}file {n}.{rng.choice(endings)}",
            b"x" * rng.choice([0, 1, 999, 1000, rng.randrange(90_000)]),
        )
        for n in range(rng.randint(1, 30))
    ]


def zips(rng: random.Random, count: int) -> Iterator[Case]:
    """ZIP archives; the oracle is `zipfile`."""
    for _ in range(count):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
            for name, data in _files(rng):
                archive.writestr(name, data)
            if rng.random() < 0.3:
                archive.mkdir("folder")
        with zipfile.ZipFile(out) as archive:
            files = [(info.filename, info.file_size) for info in archive.infolist() if not info.is_dir()]
        yield Case(out.getvalue(), (ArchiveOracle("ZIP archive", files),), kinds=_BINARY)


def tars(rng: random.Random, count: int) -> Iterator[Case]:
    """Tar archives, packed or not, sometimes cut off; the oracle is `tarfile`."""
    packers: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        "gzip": gzip.compress,
        "bzip2": bz2.compress,
        "xz": lzma.compress,
    }
    for number in range(count):
        out = io.BytesIO()
        with tarfile.open(
            fileobj=out, mode="w", format=rng.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
        ) as archive:
            for name, data in _files(rng):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as archive:
            files = [(info.name, info.size) for info in archive]
        packer = rng.choice(list(packers))
        data = packers[packer](out.getvalue())
        if number % 5 == 4:
            data = data[: len(data) // 2]
        inside = f"tar archive ({packer})" if packer else "tar archive"
        yield Case(
            data,
            (HeaderOracle(f"{packer} data" if packer else "tar archive"), ArchiveOracle(inside, files)),
            kinds=_BINARY,
        )


def packed(rng: random.Random, count: int) -> Iterator[Case]:
    """One compressed text."""
    for number in range(count):
        text = b"".join(b"line %d of %d\n" % (n, number) for n in range(rng.randint(1, 900)))
        name, data = rng.choice(
            [("gzip", gzip.compress(text)), ("bzip2", bz2.compress(text)), ("xz", lzma.compress(text))]
        )
        yield Case(data, (HeaderOracle(f"{name} data"),), kinds=_BINARY)


def unknown(rng: random.Random, count: int) -> Iterator[Case]:
    """Bytes of no format that anybody knows."""
    for _ in range(count):
        data = b"\x00\x01\x02\x03" + rng.randbytes(rng.randint(20, 3_000))
        yield Case(data, (HeaderOracle("unknown binary data"),), kinds=_BINARY)


def encoded(rng: random.Random, count: int) -> Iterator[Case]:
    """XML in an encoding of its own that it declares, whose text is mostly outside ASCII."""
    for _ in range(count):
        name, words = rng.choice(
            [
                ("windows-1251", "Гавань и река "),
                ("KOI8-R", "Корабли "),
                ("Shift_JIS", "港と川"),
                ("ISO-8859-7", "λιμάνι "),
            ]
        )
        rows = "".join(f"<p>{words * rng.randint(3, 9)}</p>\n" for _ in range(rng.randint(3, 60)))
        data = f'<?xml version="1.0" encoding="{name}"?>\n<doc>\n{rows}</doc>\n'.encode(name)
        yield Case(data, (HeaderOracle(f"XML in {name}"),), kinds=_BINARY)


def mails(rng: random.Random, count: int) -> Iterator[Case]:
    """Mail with a body, and some with a page or an attachment, in both encodings; and mailboxes of several."""
    for number in range(count):
        mail = EmailMessage()
        mail["From"], mail["To"] = f"ann{number}@example.org", "bob@example.org"
        mail["Subject"], mail["X-Number"] = f"Größer {number}", str(number)
        body = "".join(f"Line {n} of ü {number}\n" for n in range(rng.randint(1, 200)))
        mail.set_content(body, cte=rng.choice(("base64", "quoted-printable")))
        if rng.random() < 0.3:
            mail.add_alternative(f"<html><body><h1>Part</h1><p>{body}</p></body></html>", subtype="html")
        if rng.random() < 0.3:
            mail.add_attachment(rng.randbytes(900), maintype="application", subtype="zip", filename="a.zip")
        line, many = b"From ann@example.org Mon Jan  1 10:00:00 2024\n", rng.randint(2, 9)
        name, data = rng.choice([("mail", bytes(mail)), ("mailbox", (line + bytes(mail) + b"\n") * many)])
        yield Case(data, (HeaderOracle(name),), kinds=(Kind.DOCUMENT,))
