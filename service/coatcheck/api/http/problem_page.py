"""The page `docs/errors.md`, generated from the table of errors. A test compares it with the committed page."""

from coatcheck.api.http.error_table import TABLE

_HEAD = """# Errors

Errors over HTTP are problem details (RFC 9457), `application/problem+json`: `type` (`/errors/` and the code), `title`,
`status`, `code`, `detail` and `request_id`, and for some codes further members such as `field`, `position` or `limit`.
`GET` the `type` to have the code explained, as a page, text or JSON, depending on the header field `Accept`.
A code is permanent: it is never renamed and never used for something else. `detail` is a sentence for a person or a
model and may change.

If a retry may succeed soon, the answer has `Retry-After`. The answer `artifact_not_found` is the same, byte for byte,
whether the ID never existed, belongs to someone else, or was forgotten; so its request ID is only in the header field
`X-Request-ID`, which every answer has.

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
