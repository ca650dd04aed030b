"""Characters that no name, label or URL may contain."""

import re
from typing import Final

CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and line separators."""
