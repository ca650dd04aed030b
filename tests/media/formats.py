"""Small files of many formats, each as its specification says, with what a card should say of it."""

import bz2
import gzip
import io
import lzma
import sqlite3
import struct
import tarfile
import zipfile
import zlib
from contextlib import closing
from typing import Final

from coatcheck.core.encoding.frames import zstd


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, colour: int = 2, *more: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + b"".join(more) + _chunk(b"IDAT", zlib.compress(b"\0" * 40))


def gif(frames: int) -> bytes:
    frame = b"\x21\xf9\x04\0\0\0\0\0" + b"\x2c" + struct.pack("<HHHHB", 0, 0, 9, 9, 0) + b"\x02\x02\x4c\x01\0"
    return b"GIF89a" + struct.pack("<HHBBB", 30, 20, 0x80, 0, 0) + bytes(6) + frame * frames + b"\x3b"


def jpeg(width: int, height: int, orientation: int = 0, sof: int = 0xC0) -> bytes:
    data = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    if orientation:
        exif = b"Exif\0\0MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
        data += b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    return data + bytes([0xFF, sof]) + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9) + b"\xff\xd9"


def webp(flags: int) -> bytes:
    body = b"WEBPVP8X" + struct.pack("<IB3x", 10, flags) + (799).to_bytes(3, "little") + (599).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", len(body)) + body


def wav(seconds: int) -> bytes:
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + form + b"data" + struct.pack("<I", 8000 * seconds) + bytes(8000 * seconds)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def flac(seconds: int) -> bytes:
    bits = 44_100 << 44 | 1 << 41 | 15 << 36 | 44_100 * seconds
    return b"fLaC\x80\0\0\x22" + bytes(10) + bits.to_bytes(8, "big") + bytes(16)


def mp4(seconds: int) -> bytes:
    mvhd = struct.pack(">I4sIIIII", 108, b"mvhd", 0, 0, 0, 1000, 1000 * seconds) + bytes(84)
    return b"\0\0\0\x18ftypisom\0\0\2\0isomiso2" + struct.pack(">I4s", len(mvhd) + 8, b"moov") + mvhd


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


FILES: Final = {"src/main.py": b"x" * 1500, "src/lib.py": b"y" * 40, "README.md": b"z" * 812}
LISTED: Final = (
    "3 files, 2.4 kB unpacked (sizes as stated)",
    "Files: src/main.py 1.5 kB; src/lib.py 40 B; README.md 812 B",
)
_SHEET: Final = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    '<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c><c r="B1" t="inlineStr"><is><t>price</t></is></c></row>'
    '<row r="2"><c r="A2"><v>1</v></c><c r="B2"><v>2.5</v></c></row></sheetData></worksheet>'
)
_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_REL: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PKG: Final = "http://schemas.openxmlformats.org/package/2006"
_XMLNS: Final = f'xmlns="{_MAIN}" xmlns:r="{_REL}"'
_RELS: Final = f'xmlns="{_PKG}/relationships"'


def workbook(*names: str, cells: str = "", parts: dict[str, bytes] | None = None) -> bytes:
    """An Excel workbook whose sheets all hold the same two rows, and these cells below; `parts` are in `xl`."""
    sheets = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(names, 1))
    rels = "".join(
        f'<Relationship Id="rId{n}" Type="{_REL}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(names) + 1)
    )
    rels += f'<Relationship Id="rId0" Type="{_REL}/sharedStrings" Target="sharedStrings.xml"/>'
    whole = f'<Relationship Id="rId1" Type="{_REL}/officeDocument" Target="xl/workbook.xml"/>'
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PKG}/content-types"/>'.encode(),
            "_rels/.rels": f"<Relationships {_RELS}>{whole}</Relationships>".encode(),
            "xl/workbook.xml": f"<workbook {_XMLNS}><sheets>{sheets}</sheets></workbook>".encode(),
            "xl/_rels/workbook.xml.rels": f"<Relationships {_RELS}>{rels}</Relationships>".encode(),
            **{
                f"xl/worksheets/sheet{n}.xml": _SHEET.replace("</sheetData>", f"{cells}</sheetData>").encode()
                for n in range(1, len(names) + 1)
            },
            **{f"xl/{name}": part for name, part in (parts or {}).items()},
        }
    )


def pdf(*texts: str, title: str = "Tides") -> bytes:
    """A PDF with one line of text on each page, nothing compressed."""
    pages = len(texts)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(pages))}] /Count {pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(texts):
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    objects.append(f"<< /Title ({title}) >>".encode())
    out = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"<< /Size %d /Root 1 0 R /Info %d 0 R >>" % (len(objects) + 1, len(objects))
    start = len(out)
    size = len(objects) + 1
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n%s\nstartxref\n%d\n%%%%EOF\n" % (
        size,
        table,
        trailer,
        start,
    )


def elf(machine: int = 62) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 3, machine, 1) + bytes(40)


def sqlite(script: str = "CREATE TABLE ships (id INTEGER, name TEXT); INSERT INTO ships VALUES (1, 'Ann')") -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


def npy() -> bytes:
    said = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(said)) + said + bytes(96)


def pe() -> bytes:
    return b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H16xH", 0x8664, 0x2022) + bytes(40)


def ar() -> bytes:
    def entry(name: bytes, data: bytes) -> bytes:
        return b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, b"644", len(data)) + data + b"\n" * (len(data) % 2)

    return (
        b"!<arch>\n" + entry(b"//", b"a_very_long_member_name.o/\n") + entry(b"/0", b"\0bc") + entry(b"b.o/", b"defg")
    )


FORMATS: Final[dict[str, tuple[bytes, str, tuple[str, ...]]]] = {
    "png": (png(640, 480), "image/png", ("PNG image, 640 x 480 pixels",)),
    "gif": (gif(3), "image/gif", ("GIF image, 30 x 20 pixels",)),
    "jpeg": (jpeg(200, 100), "image/jpeg", ("JPEG image, 200 x 100 pixels",)),
    "progressive jpeg": (jpeg(200, 100, 6, 0xC2), "image/jpeg", ("JPEG image, 200 x 100 pixels",)),
    "webp": (webp(0x12), "image/webp", ("WebP image, 800 x 600 pixels",)),
    "tiff": (b"II*\0" + bytes(60), "image/tiff", ("TIFF image",)),
    "bmp": (
        b"BM" + struct.pack("<IIIIiiHH", 900, 0, 54, 40, 7, -9, 1, 24) + bytes(24),
        "image/bmp",
        ("BMP image, 7 x 9 pixels",),
    ),
    "avif": (b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", "image/avif", ("AVIF image",)),
    "wav": (wav(2), "audio/wav", ("WAV audio, 2.0 seconds",)),
    "flac": (flac(100), "audio/flac", ("FLAC audio, 1:40 minutes",)),
    "mp4": (mp4(3725), "video/mp4", ("MP4 media, 1:02:05 hours",)),
    "mp3": (b"ID3\x04\0\0\0\0\0\0\xff\xfb\x90\x44" + bytes(400), "audio/mpeg", ("MP3 audio",)),
    "ogg": (b"OggS\0\2" + bytes(22) + b"OpusHead" + bytes(11), "application/ogg", ("Ogg media",)),
    "zip": (zipped(FILES), "application/zip", (f"ZIP archive: {LISTED[0]}", LISTED[1])),
    "wheel": (
        zipped({"a/__init__.py": b"", "a-1.dist-info/WHEEL": b"x"}),
        "application/zip",
        ("Python wheel: 2 files, 1 B unpacked (sizes as stated)", "Files: a/__init__.py 0 B; a-1.dist-info/WHEEL 1 B"),
    ),
    "jar": (
        zipped({"META-INF/MANIFEST.MF": b"x", "A.class": b"yz"}),
        "application/java-archive",
        ("Java archive: 2 files, 3 B unpacked (sizes as stated)", "Files: META-INF/MANIFEST.MF 1 B; A.class 2 B"),
    ),
    "epub": (
        zipped({"mimetype": b"application/epub+zip", "a.xhtml": b"<p/>"}, zipfile.ZIP_STORED),
        "application/epub+zip",
        ("EPUB book",),
    ),
    "tar": (tarred(FILES), "application/x-tar", ("tar archive",)),
    "tar.gz": (gzip.compress(tarred(FILES), mtime=0), "application/gzip", ("gzip data",)),
    "tar.xz": (lzma.compress(tarred(FILES)), "application/x-xz", ("xz data",)),
    "tar.bz2": (bz2.compress(tarred(FILES)), "application/x-bzip2", ("bzip2 data",)),
    "tar.zst": (zstd.compress(tarred(FILES)), "application/zstd", ("Zstandard data",)),
    "gz": (gzip.compress(b"words\n" * 99, mtime=0), "application/gzip", ("gzip data",)),
    "ar": (ar(), "application/x-archive", ("ar archive",)),
    "elf": (elf(), "application/x-elf", ("ELF file",)),
    "pe": (pe(), "application/vnd.microsoft.portable-executable", ("Windows executable",)),
    "mach": (
        b"\xcf\xfa\xed\xfe" + struct.pack("<III", 0x0100000C, 0, 6) + bytes(16),
        "application/x-mach-binary",
        ("Mach-O file",),
    ),
    "universal": (b"\xca\xfe\xba\xbe\0\0\0\2" + bytes(40), "application/x-mach-binary", ("Mach-O universal file",)),
    "class": (b"\xca\xfe\xba\xbe\0\0\0\x3d" + bytes(40), "application/java-vm", ("Java class",)),
    "pyc": (b"\xa7\r\r\n" + bytes(60), "application/x-python-code", ("Python bytecode",)),
    "sqlite": (sqlite(), "application/vnd.sqlite3", ("SQLite database",)),
    "npy": (npy(), "application/x-npy", ("NumPy array, shape (3, 4), type <f8",)),
    "pdf": (pdf("Low tide", "High tide"), "application/pdf", ("PDF document, 2 pages",)),
    "wasm": (b"\0asm\1\0\0\0", "application/wasm", ("WebAssembly module",)),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(60), "application/x-7z-compressed", ("7-Zip archive",)),
    "noise": (b"\x9f\x01\xfe\x00" * 40, "application/octet-stream", ("unknown binary data",)),
}
