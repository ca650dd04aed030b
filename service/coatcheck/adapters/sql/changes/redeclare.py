"""Replaces what is declared about an existing artifact by the declaration of a repeated request.

Also replaced are detected metadata, the survey, and the text view if the extractor's inputs differ. Labels, expiry and
the comparison with an earlier artifact stay. `DeclaredMetadata.merged_over` decides.
"""

from sqlalchemy import Connection, bindparam, update

from coatcheck.adapters.sql import rows
from coatcheck.adapters.sql.changes.surveys import add_survey, drop_survey
from coatcheck.adapters.sql.changes.texts import wait_for_index
from coatcheck.adapters.sql.changes.tombstone import lock_row
from coatcheck.adapters.sql.changes.views import replace_view
from coatcheck.adapters.sql.tables import artifacts
from coatcheck.core.artifact import Artifact
from coatcheck.core.reads.view_inputs import view_inputs
from coatcheck.ports.artifacts import StoreArtifact

_NAMES = ("said", "facts", "tool_name", "kind", "url", "engine", "declared_at")
_DECLARE = (
    update(artifacts)
    .where(artifacts.c.seq == bindparam("row"))
    .values({name: bindparam(name, type_=artifacts.c[name].type) for name in _NAMES})
)


def redeclare(conn: Connection, change: StoreArtifact, seq: int, there: Artifact) -> bool:
    """Declares the artifact of a row anew. Returns False if the row was deleted meanwhile; then nothing is changed."""
    if not lock_row(conn, seq):
        return False
    declared = change.declared.merged_over(there.declared)
    facts = change.facts.keeping_first_time_fields(there.facts)
    columns = rows.columns_of_metadata(declared, facts)
    conn.execute(_DECLARE, {"row": seq, "engine": change.engine, "declared_at": change.now, **columns})
    drop_survey(conn, seq)
    add_survey(conn, change, seq)
    if view_inputs(declared, facts) != view_inputs(there.declared, there.facts):
        replace_view(conn, change, change.text_view, seq)
    wait_for_index(conn, change.namespace, [seq])
    return True
