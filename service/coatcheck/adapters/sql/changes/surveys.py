"""Surveys, kept beside their artifacts' rows and deleted with them, by the foreign key."""

from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert

from coatcheck.adapters.sql.prepared_statements import Prepared
from coatcheck.adapters.sql.tables import surveys
from coatcheck.ports.artifacts import StoreArtifact

ADD = Prepared(insert(surveys), columns=surveys.c.keys())
_DROP_SURVEY = Prepared(delete(surveys).where(surveys.c.artifact_seq == bindparam("seq")))


def add_survey(conn: Connection, change: StoreArtifact, seq: int) -> None:
    """Keeps the survey of a change, if it has one, for the artifact of a row."""
    if change.survey is not None:
        ADD.run(conn, survey_row(change.namespace, seq, change.survey))


def drop_survey(conn: Connection, seq: int) -> None:
    """Deletes the survey of the artifact of a row, if it has one."""
    _DROP_SURVEY.run(conn, {"seq": seq})


def survey_row(namespace: str, seq: int, survey: bytes) -> dict[str, Any]:
    """Returns the row of a survey."""
    return {"artifact_seq": seq, "namespace": namespace, "data": survey}
