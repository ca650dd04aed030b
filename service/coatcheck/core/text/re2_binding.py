"""RE2's binding below its public wrapper: positions in bytes, without an object per match.

The public wrapper also keeps 128 compiled patterns of up to 8 MB. What is compiled here belongs to the caller, and is
thread-safe.
"""

from typing import Any, Final, cast

import re2

RE2: Final = cast("Any", re2)._re2.RE2  # noqa: SLF001 - see above
UNANCHORED: Final = RE2.Anchor.UNANCHORED
LATIN1: Final = cast("Any", re2).Options.Encoding.LATIN1
"""Treats each byte as a letter."""
PATTERN_BYTES: Final = 32 * 1024
"""Bytes of memory that a compiled pattern usually takes, as measured with mallinfo2(3): some 19,000 if it is of ASCII,
up to 900,000 if it repeats classes such as \\p{L}. RE2 does not say what it takes, only keeps to its limit."""


def re2_compiled(source: bytes, memory: int, **settings: object) -> Any:  # noqa: ANN401 - the binding has no types
    """Returns a pattern with automata of at most `memory` bytes; its `ok()` is False if RE2 does not accept it.

    `settings` are RE2's options by name.
    """
    options = cast("Any", re2).Options()
    options.log_errors = False
    options.max_mem = memory
    for name, value in settings.items():
        setattr(options, name, value)
    return RE2(source, options)
