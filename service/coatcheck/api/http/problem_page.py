"""The page `docs/errors.md`, generated from the table of errors. A test compares it with the committed page."""

from coatcheck.api.http.error_table import TABLE

_HEAD = """# Errors

Errors over HTTP are problem details (RFC 9457), `application/problem+json`: `type` (`/errors/` and the code), `title`,
`status`, `code`, `detail` and `request_id`, and for some codes further members such as `field`, `position` or `limit`.
`GET` of the `type` explains the code: as a page, or as text or JSON, by the field `Accept`.
A code is permanent: it is never renamed and never used for something else. `detail` is a sentence for a person or a
model and may change.

Where the answer may be different in a moment, it carries `Retry-After`. The answer `artifact_not_found` is the same,
byte for byte, for an ID that never existed, that belongs to someone else, and that was forgotten; its request ID is in
the header field `X-Request-ID` only, which every answer carries.

| code | status | title | what happened | what to do |
|---|---|---|---|---|
"""


def errors_page() -> str:
    """Returns the page's whole text."""
    rows = [
        f"| `{code}` | {row.status} | {row.title} | {row.meaning} | {row.advice} |"
        for code, row in sorted(TABLE.items())
    ]
    return _HEAD + "\n".join(rows) + "\n"
