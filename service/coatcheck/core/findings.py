"""What a check has found: values that every engine's examination and the audit speak in. They decide nothing."""

from msgspec import Struct

HARMLESS = frozenset({"orphan", "stray", "unreferenced", "exposed", "unlisted", "usage"})
"""Findings that cost space, privacy, the finding of something or a quota's truth, not data."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """Something that is not as it should be."""

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
    """Empty for what is about no single blob."""
    detail: str
    repaired: bool = False
    """Whether this very check put it right, as far as that goes; `detail` says how."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """What an engine says of itself."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for whoever runs it: versions and what they mean. Nothing that is wrong."""
