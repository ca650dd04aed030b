"""Office documents: made up as Markdown and written by pandoc, or part by part, with what pandoc does not write."""

import re
import tempfile
from pathlib import Path
from random import Random
from typing import Any, cast

import pypandoc

from media.formats import zipped

_VOCABULARY = (
    "harbour tide größe ships ferry 日本 lantern quay moor rope coat hat ticket cloakroom invoice 4711 due October "
    "captain île naïve weather Ω register wind"
)
WORDS = re.findall(r"\S+", _VOCABULARY)
_W = 'xmlns:w="urn:w" xmlns:wp="urn:wp" xmlns:mc="urn:mc" xmlns:v="urn:v"'
_A = 'xmlns:a="urn:a" xmlns:p="urn:p" xmlns:r="urn:r"'
_ODF = " ".join(
    f'xmlns:{name}="urn:{name}"' for name in ("office", "text", "table", "draw", "dc", "style", "presentation")
)
_PANDOC = cast("Any", pypandoc)


def sentence(rng: Random, most: int = 20) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(3, most))).capitalize() + "."


def markdown(seed: int, *, notes: bool = True) -> str:
    """A document of headings, paragraphs, lists in lists, tables and notes."""
    rng = Random(seed)
    blocks: list[str] = []
    count = 0
    for _ in range(rng.randrange(3, 7)):
        blocks.append(f"{'#' * rng.randrange(1, 4)} {sentence(rng, 6)}")
        for _ in range(rng.randrange(1, 6)):
            kind = rng.randrange(6)
            if kind == 0:
                blocks.append(
                    "\n".join(f"{rng.choice(('- ', '    - ')) if n else '- '}{sentence(rng)}" for n in range(4))
                )
            elif kind == 1:
                blocks.append("\n".join(f"{n + 1}. {sentence(rng)}" for n in range(rng.randrange(2, 5))))
            elif kind == 2:
                rows = [f"| {sentence(rng, 5)} | {rng.randrange(9999)} | {sentence(rng, 4)} |" for _ in range(3)]
                blocks.append("\n".join(["| name | count | note |", "|---|---|---|", *rows]))
            elif kind == 3 and notes:
                count += 1
                blocks.append(f"{sentence(rng)}[^{count}] {sentence(rng)}\n\n[^{count}]: {sentence(rng)}")
            elif kind == 4:
                blocks.append(f"> {sentence(rng)}")
            else:
                blocks.append(
                    f"{sentence(rng)} *{sentence(rng)}* and **{sentence(rng)}** [{sentence(rng)}](https://e.org/a)"
                )
    return "\n\n".join(blocks)


def written(text: str, form: str) -> bytes:
    """A document in this format, by pandoc."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"made.{form}"
        _PANDOC.convert_text(
            text, form, format="markdown", outputfile=str(path), extra_args=["-s", "--metadata=title:x"]
        )
        return path.read_bytes()


def read_by_pandoc(data: bytes, form: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"made.{form}"
        path.write_bytes(data)
        return str(_PANDOC.convert_file(str(path), "plain", format=form, extra_args=["--wrap=none"]))


def _paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def word(body: str = "", *, text: str = "", **parts: str) -> bytes:
    """A Word document with this body, and other parts by name."""
    files = {"[Content_Types].xml": b"", "word/document.xml": _part("document", _paragraph(text) + body)}
    files |= {f"word/{name}.xml": _part(name, part) for name, part in parts.items()}
    return zipped(files)


def _part(name: str, inner: str) -> bytes:
    return f'<?xml version="1.0"?><w:{name} {_W}>{inner}</w:{name}>'.encode()


def word_with_everything() -> bytes:
    """Header, footer, notes, a comment, a text box, a tracked change, a table in a table, breaks and tabs."""
    box = f"<w:txbxContent>{_paragraph('In the box')}</w:txbxContent>"
    return word(
        '<w:p><w:pPr><w:pStyle w:val="berschrift1"/><w:tabs><w:tab/></w:tabs></w:pPr>'
        "<w:r><w:t>Kapitel</w:t></w:r></w:p>"
        "<w:p><w:r><w:t>Kept</w:t><w:tab/><w:t>here</w:t><w:br/><w:t>below</w:t></w:r>"
        "<w:del><w:r><w:delText>Deleted</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>Moved</w:t></w:r></w:moveFrom>"
        '<w:ins><w:r><w:t>, inserted</w:t></w:r></w:ins><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
        f"<w:p><w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>"
        '<w:t>Beside the box</w:t><wp:docPr id="1" descr="A coat on a hook"/><w:commentReference w:id="0"/></w:r></w:p>'
        f"<w:tbl><w:tr><w:tc>{_paragraph('a')}</w:tc><w:tc>{_paragraph('b')}"
        f"<w:tbl><w:tr><w:tc>{_paragraph('inner')}</w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>",
        text="First",
        header1=_paragraph("At the top"),
        header2=_paragraph("At the top"),
        footer1=_paragraph("At the bottom"),
        comments=f'<w:comment w:id="0" w:author="Ann">{_paragraph("Really?")}</w:comment>',
        footnotes=f'<w:footnote w:id="2">{_paragraph("Below the line")}</w:footnote>',
        styles='<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>',
    )


def _shape(place: str, *paragraphs: str) -> str:
    text = "".join(f"<a:p><a:r><a:t>{each}</a:t></a:r></a:p>" for each in paragraphs)
    named = f'<p:nvSpPr><p:cNvPr id="1"/><p:nvPr><p:ph type="{place}"/></p:nvPr></p:nvSpPr>'
    return f"<p:sp>{named}<p:txBody>{text}</p:txBody></p:sp>"


def slides(*, notes: str = "Say it slowly", text: str = "Nets are mended") -> bytes:
    """A presentation of two slides in another order than their files, the second hidden, with notes and a table."""
    relations = "".join(f'<Relationship Id="rId{n}" Type="x/slide" Target="slides/slide{n}.xml"/>' for n in (1, 2))
    row = "<a:tr><a:tc><a:p><a:t>id</a:t></a:p></a:tc><a:tc><a:p><a:t>7</a:t></a:p></a:tc></a:tr>"
    listed = '<p:sldId id="9" r:id="rId2"/><p:sldId id="8" r:id="rId1"/>'
    first = f"{_shape('body', text)}{_shape('title', 'Harbour')}{row}{_shape('sldNum', '1')}"
    second = f"{_shape('title', 'Spare')}{_shape('body', 'Left out')}"
    noted = '<Relationship Id="a" Type="x/notesSlide" Target="../notesSlides/n.xml"/>'
    files = {
        "[Content_Types].xml": "",
        "ppt/presentation.xml": f"<p:presentation {_A}>{listed}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": f"<Relationships>{relations}</Relationships>",
        "ppt/slides/slide2.xml": f"<p:sld {_A}>{first}</p:sld>",
        "ppt/slides/slide1.xml": f'<p:sld {_A} show="0">{second}</p:sld>',
        "ppt/slides/_rels/slide2.xml.rels": f"<Relationships>{noted}</Relationships>",
        "ppt/notesSlides/n.xml": f"<p:notes {_A}>{_shape('sldNum', '1')}{_shape('body', notes)}</p:notes>",
    }
    return zipped({name: part.encode() for name, part in files.items()})


def open_document(form: str, body: str, styles: str = "") -> bytes:
    """An OpenDocument file with this body."""
    files = {
        "mimetype": f"application/vnd.oasis.opendocument.{form}",
        "content.xml": f"<office:document-content {_ODF}>{body}</office:document-content>",
        "styles.xml": f"<office:document-styles {_ODF}>{styles}</office:document-styles>",
    }
    return zipped({name: part.encode() for name, part in files.items()}, 0)


def open_text(text: str = "Kept") -> bytes:
    """A text with a tracked change, a comment, a note, blanks, a repeated cell, a header."""
    return open_document(
        "text",
        "<office:body><office:text><text:tracked-changes><text:deletion><text:p>Deleted</text:p></text:deletion>"
        f'</text:tracked-changes><text:h text:outline-level="2">Chapter</text:h><text:p>{text}<text:s text:c="3"/>here'
        "<office:annotation><dc:creator>Ann</dc:creator><dc:date>2024-01-01</dc:date><text:p>Really?</text:p>"
        "</office:annotation><text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>Below the line</text:p></text:note-body></text:note>, and on</text:p>"
        "<table:table><table:table-row><table:table-cell "
        'table:number-columns-repeated="16384"><text:p>a</text:p></table:table-cell><table:covered-table-cell/>'
        "</table:table-row></table:table></office:text></office:body>",
        "<style:master-page><style:header><text:p>At the top</text:p></style:header></style:master-page>",
    )


def open_slides() -> bytes:
    frame = '<draw:frame presentation:class="{}"><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>'
    return open_document(
        "presentation",
        '<office:automatic-styles><style:style style:name="dp2"><style:drawing-page-properties '
        'presentation:visibility="hidden"/></style:style></office:automatic-styles><office:body><office:presentation>'
        f'<draw:page draw:style-name="dp1">{frame.format("outline", "Nets")}{frame.format("title", "Harbour")}'
        f"<presentation:notes>{frame.format('notes', 'Say it slowly')}</presentation:notes></draw:page>"
        f'<draw:page draw:style-name="dp2">{frame.format("title", "Spare")}</draw:page></office:presentation>'
        "</office:body>",
    )
