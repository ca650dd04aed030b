"""Compares the full-text index with the artifacts, to find what queries miss.

Reports; given an index to repair, it also drops damaged segments and queues what is missing. What is in the index but
not among the artifacts is harmless and not examined.
"""

from coatcheck.core.findings import Finding
from coatcheck.core.fulltext import is_whole
from coatcheck.ports.text_index import DropSegment, Reindex, TextIndex


async def check_text_index(texts: TextIndex, repairs: TextIndex | None) -> list[Finding]:
    """Returns a finding for each namespace with artifacts that are missing in the index.

    Raises:
        CoatcheckError: `storage_unavailable` if the catalogue cannot be queried.
    """
    findings: list[Finding] = []
    namespace = await texts.next_namespace("")
    while namespace is not None:
        finding = await _of_namespace(texts, repairs, namespace)
        findings += [] if finding is None else [finding]
        namespace = await texts.next_namespace(namespace)
    return findings


async def _of_namespace(texts: TextIndex, repairs: TextIndex | None, namespace: str) -> Finding | None:
    damaged = 0
    for size in await texts.segment_sizes(namespace):
        whole = await texts.read_segments(namespace, [size.id])
        if whole is not None and not is_whole(whole[0]):
            damaged += 1
            if repairs is not None:
                await repairs.commit(DropSegment(namespace=namespace, segment_id=size.id))
    if damaged:
        return _of_damage(namespace, damaged, repaired=repairs is not None)
    missing = 0
    row: int | None = 0
    while row is not None:
        rows, row = await texts.find_unlisted(namespace, row)
        missing += len(rows)
        if rows and repairs is not None:
            await repairs.commit(Reindex(namespace=namespace, rows=tuple(rows)))
    if not missing:
        return None
    detail = f"{missing:,} artifacts are not in the full-text index: no query finds them."
    if repairs is None:
        return Finding("unlisted", namespace, "", detail)
    return Finding("unlisted", namespace, "", f"{detail} They are indexed by the running service.", repaired=True)


def _of_damage(namespace: str, damaged: int, *, repaired: bool) -> Finding:
    detail = f"{damaged:,} segments of the full-text index are damaged: queries do not find what they hold."
    more = " It is indexed again by the running service." if repaired else " No artifact is damaged by that."
    return Finding("unlisted", namespace, "", f"{detail}{more}", repaired=repaired)
