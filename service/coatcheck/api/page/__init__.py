"""The administrator's page: what the API does, for people with a browser."""


def is_page(path: str) -> bool:
    """Whether a path is one of the page's."""
    return path in {"/", "/ui"} or path.startswith("/ui/")
