"""Finds the records of a text that is no JSON: XML, YAML, blocks of pairs, tables in columns."""

from coatcheck.core.records.model import RecordList
from coatcheck.core.records.objects import lists_in
from coatcheck.core.records.tables import read_columns, rows_of
from coatcheck.core.records.xml import read_xml
from coatcheck.core.records.yaml import read_pairs, read_yaml


def documents_in(text: bytes) -> list[RecordList]:
    """Returns the records of a document that is a whole text; none of any other text."""
    reading = read_xml(text) or read_yaml(text) or read_pairs(text)
    return [] if reading is None else lists_in(reading.value, reading.lines)


def records_in(text: bytes) -> list[RecordList]:
    """Returns the records of a whole text, in the first form that all of it has."""
    if documents := documents_in(text):
        return documents
    table = read_columns(text.decode("utf-8", "replace"))
    if table is not None:
        rows, lines = table
        return [rows_of(rows[0], rows[1:], lines[1:])]
    return []
