"""Text views of archives and compressed files: against the libraries that wrote them, and against hostile ones."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest

from coatcheck.adapters.extract.archives import MEMBER_BYTES, SHOWN_BYTES
from coatcheck.adapters.extract.documents import extract_document
from coatcheck.core.encoding.frames import zstd
from coatcheck.core.extract.blocks import one_line
from coatcheck.core.views.view import MAX_SECTIONS
from media.formats import FILES, png, sqlite, tarred, zipped
from media.views import bodies, listing, summary, text_of, view_of

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def random_files(rng: random.Random) -> dict[str, bytes]:
    """Files with names and texts of many sorts; every third is no text."""
    words = ["tide", "größe", "日本", "x = 1", "", "<a>", "## p2", "\tindented", "last"]
    files: dict[str, bytes] = {}
    for n in range(rng.randrange(1, 25)):
        name = f"{rng.choice(('', 'src/', 'a b/c/', 'ünï/'))}{rng.choice(('f', 'F', 'p', '..f', 'd' * 120))}{n}"
        text = "\n".join(rng.choice(words) for _ in range(rng.randrange(60))).encode()
        files[name] = b"\x7f\x00\x01" + rng.randbytes(200) if n % 3 == 2 else text
    return files


def shown(data: bytes) -> str:
    """What a view shows of a file under its heading."""
    return "[binary data: not shown]" if data.startswith(b"\x7f\x00") else data.decode().rstrip()


def zip_with(rng: random.Random, files: dict[str, bytes]) -> bytes:
    return zipped(files, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def tar_with(rng: random.Random, files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    form = rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("seed", range(60))
def test_a_zip_is_listed_and_each_file_is_a_section(seed: int) -> None:
    rng = random.Random(seed)
    files = random_files(rng)
    found = view_of(zip_with(rng, files))
    assert not found.partial
    assert [(int(size), name) for size, name, *_ in listing(found)] == [(len(v), k) for k, v in files.items()]
    assert bodies(found) == {name: shown(data) for name, data in files.items()}
    noun = "file" if len(files) == 1 else "files"
    assert summary(found)[0].startswith(f"ZIP archive: {len(files)} {noun}, ")


@pytest.mark.parametrize("seed", range(60))
def test_a_tar_in_any_packing_is_listed_and_each_file_is_a_section(seed: int) -> None:
    rng = random.Random(seed)
    files = random_files(rng)
    packing = rng.choice(["", *PACK])
    data = tar_with(rng, files)
    found = view_of(PACK[packing](data) if packing else data)
    assert not found.partial
    assert [(int(size), name) for size, name, *_ in listing(found)] == [(len(v), k) for k, v in files.items()]
    assert bodies(found) == {name: shown(data) for name, data in files.items()}
    assert summary(found)[0].startswith(f"tar archive{f' ({packing})' if packing else ''}: {len(files)} file")


@pytest.mark.parametrize("packing", PACK)
def test_a_compressed_file_is_its_text_under_its_name(packing: str) -> None:
    for text in ("", "one line", "größe\n" * 9000):
        found = view_of(PACK[packing](text.encode()))
        assert bodies(found) == {"content": text.rstrip()}
        assert not found.partial
        assert summary(found)[0].startswith(f"{packing} data: content, ")
    out = io.BytesIO()
    with gzip.GzipFile("notes.txt", "wb", fileobj=out, mtime=0) as packed:
        packed.write(b"x" * 1234)
    assert summary(view_of(out.getvalue())) == ["gzip data: notes.txt, 1.2 kB unpacked"]


def test_several_streams_behind_each_other_are_one_text() -> None:
    for pack in PACK.values():
        assert bodies(view_of(pack(b"one\n") + pack(b"two\n"))) == {"content": "one\ntwo"}


def test_what_is_in_an_archive_is_described_and_not_opened() -> None:
    found = view_of(
        zipped({"logo.png": png(9, 8), "in.zip": zipped(FILES), "old.db": sqlite(), "t.tgz": gzip.compress(b"a" * 99)})
    )
    assert [row[2] for row in listing(found)] == [
        "PNG image, 9 x 8 pixels",
        "ZIP archive: 3 files, 2.4 kB unpacked (sizes as stated)",
        "SQLite database",
        "gzip data",
    ]
    assert bodies(found)["logo.png"] == "[PNG image, 9 x 8 pixels: not shown]"


def test_texts_in_other_encodings_are_read() -> None:
    german = "Für die Größe der Schiffe gibt es schöne Bücher, die über Häfen und Flüsse erzählen.\n" * 3
    files = {"a": german.encode("cp1252"), "b": "日本語\n".encode("utf-16"), "c": b"\xef\xbb\xbfbom\r\nx"}
    assert bodies(view_of(zipped(files))) == {"a": german.rstrip(), "b": "日本語", "c": "bom\nx"}


def test_an_installed_package_packed_again_is_read_as_its_files_are() -> None:
    files = [Path(str(path.locate())) for path in distribution("msgspec").files or () if str(path).endswith(".py")]
    assert len(files) > 5
    found = bodies(view_of(zipped({path.name + str(n): path.read_bytes() for n, path in enumerate(files)})))
    for n, path in enumerate(files):
        assert found[path.name + str(n)].split() == path.read_text().split()


def test_links_and_devices_are_named_and_not_followed() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, target in (
            ("passwd", tarfile.SYMTYPE, "/etc/passwd"),
            ("hard", tarfile.LNKTYPE, "../../x"),
            ("null", tarfile.CHRTYPE, ""),
            ("dir", tarfile.DIRTYPE, ""),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            archive.addfile(entry)
    found = view_of(out.getvalue())
    assert listing(found) == [
        ("0", "passwd", "link to /etc/passwd"),
        ("0", "hard", "link to ../../x"),
        ("0", "null", "device"),
    ]
    assert summary(found)[0] == "tar archive: 3 files, 0 B unpacked (sizes as stated)"
    assert "root:" not in text_of(found)


def test_names_are_titles_and_never_paths(tmp_path: Path) -> None:
    names = ["../../up", "/etc/shadow", str(tmp_path / "made"), "a\\b", "con\x01trol", "line\nbreak", "C:\\x", "~/.ssh"]
    for payload in (zipped(dict.fromkeys(names, b"text")), tarred(dict.fromkeys(names, b"text"))):
        found = view_of(payload)
        assert set(bodies(found).values()) == {"text"}
        assert [row[1] for row in listing(found)] == [one_line(name) for name in names]
    assert list(tmp_path.iterdir()) == []


def test_encrypted_and_oddly_packed_files_are_listed_only() -> None:
    data = bytearray(zipped({"secret": b"text" * 9}))
    for at in (6, data.index(b"PK\1\2") + 8):
        data[at] |= 1
    found = view_of(bytes(data))
    assert listing(found) == [("36", "secret", "encrypted")]
    assert bodies(found) == {"secret": "[encrypted: not shown]"}
    found = view_of(zipped({"a": b"text"}, zipfile.ZIP_LZMA))
    assert listing(found) == [("4", "a", "compressed by another method than deflate")]


def test_a_file_whose_checksum_is_wrong_is_not_shown_and_the_others_are() -> None:
    data = zipped({"a": b"first text", "b": b"second text"}, zipfile.ZIP_STORED).replace(b"first", b"wrong")
    found = view_of(data)
    assert bodies(found) == {"a": "[cannot be read: not shown]", "b": "second text"}
    assert found.partial


def test_a_long_file_is_cut_and_the_next_one_is_there() -> None:
    for payload in (zipped({"long": b"x" * 5_000_000, "b": b"y"}), tarred({"long": b"x" * 5_000_000, "b": b"y"})):
        found = view_of(payload)
        assert found.partial
        assert bodies(found) == {
            "long": f"{'x' * MEMBER_BYTES}\n[cut: this was the beginning, {MEMBER_BYTES} bytes]",
            "b": "y",
        }


def test_all_files_are_listed_and_no_more_than_the_bound_is_shown() -> None:
    found = view_of(zipped({f"f{n}": b"z" * 900_000 for n in range(20)}))
    assert found.partial
    assert len(listing(found)) == 20
    assert SHOWN_BYTES <= len(text_of(found)) < SHOWN_BYTES + 10_000


def test_very_many_files_are_listed_and_sections_are_kept_for_text() -> None:
    found = view_of(zipped({f"{n}": b"\0\1" if n < 1990 else b"t" for n in range(2500)}))
    assert len(listing(found)) == 2500
    assert [each.title for each in found.sections] == [str(n) for n in range(1990, 2500)]
    assert len(view_of(zipped({f"{n}": b"t" for n in range(2500)})).sections) == MAX_SECTIONS


def test_more_files_than_are_listed_are_said_to_be_at_least_as_many() -> None:
    found = view_of(gzip.compress(tarred({"a": b""})[:512] * 30_000))
    assert summary(found)[0] == "tar archive (gzip): at least 20000 files (sizes as stated)"
    assert found.partial
    assert extract_document(zipped({f"{n}": b"" for n in range(20_001)}), 30.0) is None


# ------------------------------------------------------------------------------------------------------- hostile


def timed(payload: bytes, seconds: float) -> float:
    """Processor seconds that a view takes which may take `seconds`."""
    began = time.process_time()
    found = extract_document(payload, seconds)
    assert found is None or len(text_of(found)) < 17_000_000
    return time.process_time() - began


def zip_bomb(files: int) -> bytes:
    """Many names for one file of 20 MB, as in the bombs whose files overlap."""
    one = zipped({"a": bytes(20_000_000)})
    at, end = one.index(b"PK\1\2"), one.index(b"PK\5\6")
    return (
        one[:at]
        + one[at:end] * files
        + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, files, files, (end - at) * files, at, 0)
    )


@pytest.mark.parametrize(
    "payload",
    [
        gzip.compress(bytes(400_000_000), 6),
        gzip.compress(b"text\n" * 60_000_000, 1),
        bz2.compress(bytes(300_000_000)),
        lzma.compress(bytes(300_000_000), preset=0),
        gzip.compress(tarred({"a": b""})[:512] + (tarred({"a": bytes(1 << 20)})[:512] + bytes(1 << 20)) * 300, 1),
        zip_bomb(15_000),
    ],
    ids=["gzip", "gzip of text", "bzip2", "xz", "tar of zeros", "overlapping zip"],
)
def test_a_bomb_costs_no_more_than_its_time(payload: bytes) -> None:
    assert timed(payload, 2.0) < 3.0


def test_an_archive_that_states_more_than_it_can_hold_has_no_size() -> None:
    assert summary(view_of(zip_bomb(10)))[0] == "ZIP archive: at least 10 files (sizes as stated)"


def header(name: str, size: int, kind: bytes = b"0") -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type = size, kind
    return entry.tobuf(tarfile.GNU_FORMAT)


def test_an_extended_header_as_large_as_the_machine_is_not_read() -> None:
    begin = tarred({"a": b"text"})[:1024]
    for kind in (b"x", b"L", b"g"):
        found = view_of(gzip.compress(begin + header("b", 1 << 40, kind) + bytes(20_000_000), 1))
        assert bodies(found) == {"a": "text"}
        assert found.partial


@pytest.mark.parametrize("size", [1 << 33, 1 << 62, (1 << 88) - 1])
def test_a_file_of_a_tar_that_is_larger_than_the_tar_ends_with_it(size: int) -> None:
    found = view_of(tarred({"a": b"text"})[:1024] + header("b", size) + b"rest" * 600)
    assert bodies(found)["a"] == "text"
    assert found.partial
    assert summary(found)[0] == "tar archive: at least 2 files (sizes as stated)"


def test_a_broken_header_in_a_tar_ends_the_list_and_that_is_said() -> None:
    data = bytearray(tarred({"a": b"text", "b": b"more"}))
    data[1024] ^= 1
    found = view_of(bytes(data))
    assert summary(found)[0] == "tar archive: at least 1 file (sizes as stated)"
    assert found.partial


@pytest.mark.parametrize("packing", PACK)
def test_a_compressed_file_that_is_cut_off_is_read_as_far_as_it_goes(packing: str) -> None:
    rng = random.Random(5)
    text = "".join(f"{rng.random()}\n" for _ in range(150_000))
    packed = PACK[packing](text.encode())
    found = view_of(packed[: len(packed) * 3 // 4])
    body = bodies(found)["content"]
    assert found.partial
    assert text.startswith(body)
    assert len(body) > 100_000
    assert "at least" in summary(found)[0]


def test_bytes_behind_a_signature_are_no_archive() -> None:
    rng = random.Random(6)
    for begin in (b"PK\3\4", b"PK\5\6", b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"):
        for _ in range(30):
            assert extract_document(begin + rng.randbytes(rng.randrange(2000)), 5.0) is None


def test_the_same_archive_gives_the_same_view() -> None:
    rng = random.Random(7)
    payload = zip_with(rng, random_files(rng))
    assert view_of(payload) == view_of(payload)


CONTROL = "Package: till\nVersion: 1.2-3\nArchitecture: all\nDescription: counts coins\n Long words.\n"


def packaged(control: bytes, data: bytes, ending: str) -> bytes:
    """A Debian package of two tar archives, packed already."""
    parts = {"debian-binary": b"2.0\n", f"control.tar{ending}": control, f"data.tar{ending}": data}
    out = b"!<arch>\n"
    for name, part in parts.items():
        out += f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(part):<10}`\n".encode() + part + b"\n" * (len(part) % 2)
    return out


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress)]
)
def test_a_debian_package_says_what_it_is_and_what_it_installs(ending: str, pack: Callable[[bytes], bytes]) -> None:
    control = tarred({"./md5sums": b"", "./control": CONTROL.encode()})
    package = packaged(pack(control), pack(tarred({"./usr/bin/till": b"#!/bin/sh\n", "./etc/till": b"a=1\n"})), ending)
    view = text_of(view_of(package))
    assert view.startswith("Debian package till 1.2-3 all (counts coins): 2 files, 14 B unpacked (sizes as stated)\n")
    assert "10\t./usr/bin/till\n4\t./etc/till\n" in view
    assert f"## control\n{CONTROL}" in view
    for end in range(8, len(package), 41):  # cut anywhere
        extract_document(package[:end], 5.0)


def test_a_package_that_is_broken_or_unpacks_to_too_much_ends() -> None:
    data = tarred({"./a": b"1"})
    assert extract_document(packaged(data, data, ""), 5.0) is None
    assert extract_document(packaged(b"x" * 99, data, ".xz"), 5.0) is None
    assert extract_document(packaged(tarred({"control": CONTROL.encode()}), data, ".lz9"), 5.0) is None
    bomb = lzma.compress(tarred({"./zeros": b""})[:512] + bytes(1 << 28))
    control = lzma.compress(tarred({"control": CONTROL.encode()}))
    start = time.process_time()
    view = extract_document(packaged(control, bomb, ".xz"), 1.0)
    assert view is not None
    assert len(view.text or b"") < 10_000
    assert time.process_time() - start < 5
