"""Content negotiation between JSON and plain text (RFC 9110 section 12.5.1).

Refuses nobody: JSON is the answer when neither is wanted.
"""


def prefers_text(accept: str | None) -> bool:
    """Whether `text/plain` is wanted more than `application/json`."""
    if accept is None:
        return False
    return _quality(accept, "text", "plain") > _quality(accept, "application", "json")


def _quality(accept: str, main: str, sub: str) -> float:
    """The weight of a media type: the most specific range that matches it decides."""
    best, quality = -1, 0.0
    for item in accept.split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        rank = {f"{main}/{sub}": 2, f"{main}/*": 1, "*/*": 0}.get(name, -1)
        if rank > best:
            best, quality = rank, _weight(parameters)
    return quality


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
