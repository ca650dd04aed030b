# Of `multipart` only what is used here. Another distribution, python-multipart, installs a package of the same name
# that loads this module at run time, and hides it from type checkers.
from collections.abc import Callable, Iterator

class MultipartError(ValueError): ...
class ParserLimitReached(MultipartError): ...  # noqa: N818 - the library's name

class MultipartSegment:
    headerlist: list[tuple[str, str]]
    name: str
    filename: str | None

class PushMultipartParser:
    def __init__(self, boundary: str | bytes, *, max_segment_count: float = ...) -> None: ...
    def parse(self, chunk: bytes | bytearray) -> Iterator[MultipartSegment | bytearray | None]: ...
    def close(self, check_complete: bool = True) -> None: ...

def parse_options_header(
    header: str, options: dict[str, str] | None = None, unquote: Callable[[str, bool], str] = ...
) -> tuple[str, dict[str, str]]: ...
