"""Compare the full-text index with the artifacts: what a query cannot find though it should.

Reports; handed an index for that, gives up segments that are damaged, and puts what is missing back on the list of
those to index. Indexes nothing itself. What is in the index and not among the artifacts does no harm and is not looked
for.
"""

from coatcheck.core.findings import Finding
from coatcheck.core.fulltext import is_whole
from coatcheck.ports.text_index import DropSegment, Reindex, TextIndex


async def unlisted(texts: TextIndex, repairs: TextIndex | None) -> list[Finding]:
    """A finding for each namespace where artifacts are missing in the index.

    Raises:
        CoatcheckError: `storage_unavailable` when the catalogue cannot be asked.
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
        rows, row = await texts.unlisted(namespace, row)
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
