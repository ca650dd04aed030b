"""What a call found is let go of when it is answered, not when a garbage collector comes by."""

import gc
import time
import weakref

from coatcheck.core.jsonpath.page import PageBuilder, PageRequest
from coatcheck.core.jsonpath.parse import parse_path
from coatcheck.core.jsonpath.query import plan_of


def test_a_tally_stands_in_no_circle() -> None:
    gc.disable()
    try:
        tally = PageBuilder(PageRequest(plan=plan_of(parse_path("$[*]")), size=2, limit=1, chars=1), time.monotonic)
        left = weakref.ref(tally)
        del tally
        assert left() is None
    finally:
        gc.enable()
