"""What a provider would refuse in a history, and the history with that mended."""

from coatcheck.core.repair.faults import describe_faults, find_escaped_halves, find_faults, half_characters
from coatcheck.core.repair.mend import mend, with_elements

__all__ = [
    "describe_faults",
    "find_escaped_halves",
    "find_faults",
    "half_characters",
    "mend",
    "with_elements",
]
