"""Findings of a check: values that every engine's examination and the verification use."""

from msgspec import Struct

HARMLESS = frozenset({"orphan", "stray", "unreferenced", "exposed", "unlisted", "usage"})
"""Findings that affect space, privacy, search or a quota's accuracy, but not data."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """Something that is wrong."""

    what: str
    """Which kind of wrong:

    - `orphan`: bytes that no row refers to.
    - `missing`: a row without its bytes.
    - `corrupt`: bytes that are not what the row says.
    - `unreadable`: bytes that the disk would not give, nor say that they are not there.
    - `elsewhere`: bytes in a place that the check was not given.
    - `lost`: bytes that are missing or damaged, and are marked so already.
    - `unreferenced`: a live blob that no artifact uses.
    - `stray`: stored bytes in the catalogue that belong to no blob.
    - `dangling`: rows that point at nothing.
    - `database`: the database itself is damaged.
    - `exposed`: files that others on the machine can read.
    - `unlisted`: artifacts that the full-text index lacks, or a part of it that is damaged.
    """
    namespace: str
    blob_id: str
    """Empty if the finding is not about a single blob."""
    detail: str
    repaired: bool = False
    """Whether this check repaired it, as far as possible; `detail` says how."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """An engine's report about itself."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for whoever runs it: versions and what they mean. No faults."""
