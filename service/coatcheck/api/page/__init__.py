"""The administrator's page: what the API does, for people with a browser."""


def is_page(path: str) -> bool:
    """Returns whether a path belongs to the administrator's page."""
    return path in {"/", "/ui"} or path.startswith("/ui/")
