"""Explains an error code as a page, as text, or as JSON: one row of the table of errors."""

import re
from html import escape
from typing import Annotated, Final

from msgspec import Meta, Struct

from coatcheck.api.http.error_table import TABLE
from coatcheck.core.errors import Code

_CODE: Final = re.compile("`([^`]+)`")
_STYLE: Final = (
    ":root{color-scheme:light dark;font:100%/1.5 system-ui,sans-serif}"
    "body{max-width:40rem;margin:3rem auto;padding:0 1rem}code{font-family:ui-monospace,monospace}"
)


class ErrorExplanation(Struct, frozen=True):
    """What an error code means, and what to do."""

    type: Annotated[str, Meta(examples=["/errors/held"])]
    code: Annotated[str, Meta(description="Permanent.", examples=["held"])]
    status: Annotated[int, Meta(examples=[423])]
    title: Annotated[str, Meta(examples=["Held"])]
    meaning: Annotated[str, Meta(description="What happened.")]
    advice: Annotated[str, Meta(description="What to do next.")]
    retry_after: Annotated[
        int | None,
        Meta(description="Seconds after which the same request may succeed; null: repeating it does not help."),
    ]


def explanation(code: Code) -> ErrorExplanation:
    """Returns the explanation of an error code."""
    row = TABLE[code]
    return ErrorExplanation(f"/errors/{code}", code, row.status, row.title, row.meaning, row.advice, row.retry_after)


def as_text(error: ErrorExplanation) -> bytes:
    """Returns an explanation as a few lines of text."""
    lines = [f"{error.code}: {error.title} ({error.status})", "", error.meaning, "", f"What to do: {error.advice}"]
    return ("\n".join([*lines, *_again(error)]) + "\n").encode()


def as_html(error: ErrorExplanation) -> bytes:
    """Returns an explanation as a page, which loads nothing and has no scripts."""
    again = "".join(f"<p>{_mark_code(line)}</p>\n" for line in _again(error))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{error.code} - Coatcheck</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{_mark_code(error.title)}</h1>
<p><code>{error.code}</code>, status {error.status}</p>
<p>{_mark_code(error.meaning)}</p>
<h2>What to do</h2>
<p>{_mark_code(error.advice)}</p>
{again}<p><a href="/docs">API reference</a></p>
</main>
</body>
</html>
""".encode()


def _again(error: ErrorExplanation) -> list[str]:
    if error.retry_after is None:
        return []
    return [f"The same request may succeed after {error.retry_after} s; the field Retry-After says when."]


def _mark_code(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
