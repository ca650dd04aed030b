"""XML is told by the encoding that it declares, if its beginning is text in it."""

import pytest

from coatcheck.adapters.extract.documents import extract_document
from coatcheck.adapters.extract.wire import TEXT_BYTES
from coatcheck.core.artifact import DeclaredMetadata, Kind, PayloadSample
from coatcheck.core.kinds import recognise
from coatcheck.core.media.headers import read_encoding

BODY = "<doc>" + "<p>Гавань на реке</p>" * 40 + "</doc>"


def declared(name: str, body: str = BODY) -> str:
    return f"<?xml version='1.0' encoding='{name}'?>{body}"


@pytest.mark.parametrize("name", ["windows-1251", "KOI8-R", "ISO-8859-5", "IBM866", "MacCyrillic"])
def test_a_declared_encoding_is_used(name: str) -> None:
    data = declared(name).encode(name)
    assert read_encoding(data) == name
    facts = recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata(media_type="text/xml"))
    assert (facts.kind, facts.media_type, facts.shape) == (Kind.BINARY, "application/xml", (f"Format: XML in {name}",))
    made = extract_document(data, 10.0)
    assert made is not None
    assert made.text == declared(name).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<?xml",
        declared("utf-8").encode("windows-1251"),
        declared("utf-16").encode("utf-16"),
        declared("no-such").encode(),
        declared("hex").encode(),
        declared("zlib_codec").encode(),
        declared("undefined").encode(),
        declared("shift_jis").encode("windows-1251"),
        declared("ascii").encode("windows-1251"),
        b"<?xml version='1.0' encoding='windows-1251'?>\0\0\0",
        b"text <?xml version='1.0' encoding='windows-1251'?>",
    ],
)
def test_what_declares_no_encoding_of_its_text_is_not_decoded(data: bytes) -> None:
    assert read_encoding(data) is None


def test_what_is_mostly_ascii_stays_a_text() -> None:
    data = declared("ISO-8859-1", "<doc>" + "<p>Only a few letters of the harbour, as in Köln</p>\n" * 40).encode(
        "latin-1"
    )
    assert recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata()).kind is not Kind.BINARY


def test_the_text_of_a_very_large_one_is_partial() -> None:
    data = declared("windows-1251", "Гавань и река\n" * 800_000).encode("windows-1251")
    made = extract_document(data, 10.0)
    assert made is not None
    assert made.partial
    assert made.text is not None
    assert TEXT_BYTES - 100 < len(made.text) <= TEXT_BYTES
    assert made.text.endswith("река\n".encode())
