"""Findings of a check of the store. Every database engine and the verification report them in the same form."""

from msgspec import Struct

HARMLESS = frozenset({"orphan", "stray", "unreferenced", "exposed", "unlisted", "usage"})
"""Kinds of findings that affect space, privacy, search or the accuracy of a quota, but no data."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """A fault that a check has found."""

    what: str
    """The kind of fault:

    - `orphan`: bytes to which no row refers.
    - `missing`: a row without its bytes.
    - `corrupt`: bytes that differ from what the row says.
    - `unreadable`: bytes that the disk failed to read, without saying that they do not exist.
    - `elsewhere`: bytes in a blob store to which the check had no access.
    - `lost`: bytes that are missing or damaged, and whose blob is already marked corrupt.
    - `unreferenced`: a live blob that no artifact uses.
    - `stray`: stored bytes in the catalogue that belong to no blob.
    - `dangling`: rows that refer to rows that do not exist.
    - `database`: the database itself is damaged.
    - `exposed`: files that others on the machine can read.
    - `unlisted`: artifacts that the full-text index lacks, or a damaged part of that index.
    - `usage`: counts of a namespace's artifacts or bytes that differ from its rows.
    """
    namespace: str
    blob_id: str
    """The blob concerned; empty if the finding does not concern a single blob."""
    detail: str
    repaired: bool = False
    """Whether the check repaired the fault, as far as possible; `detail` says how."""


class EngineReport(Struct, frozen=True, kw_only=True):
    """The report of a database engine about its own state."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the operator about facts that are no faults, such as versions and what they mean."""
