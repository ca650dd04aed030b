"""The set that every checkout can make: the environment's own files, programs of its own, and what is made."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from coatcheck.core.artifact import Kind
from kinds import made_logs, made_output, made_search, made_tables, made_text, program_outputs
from kinds.corpus import Source
from kinds.environment_files import PROJECT, environment


def everywhere(folder: Path, *, quick: bool = False) -> Iterator[Source]:
    """Sources that need nothing of the machine but this checkout's environment; `folder` is for scratch files.

    `quick` makes a few of each sort, in a few seconds.
    """
    files = list(environment(40 if quick else 60))
    few = 3 if quick else 6
    documents = [source for source in files if source.family in {"md", "rst"}]
    code = [source for source in files if source.family in {"py", "js", "c", "toml", "md", "pyi", "sh"}]
    spread = code[:: max(1, len(code) // 120)]
    yield from files
    yield from chain(
        made_logs.logs(few),
        made_logs.json_lines(few),
        made_tables.tables(2 * few),
        made_search.searches(few),
        made_search.look_alikes(few),
        made_output.outputs(few),
        made_text.prose(few),
        made_text.paragraphs(documents),
        made_text.pages(documents),
        made_text.differences(spread),
        made_text.mails(4 * few),
        made_text.numbered(spread[1:]),
        made_text.binaries([source for source in spread if source.kind is Kind.CODE_OR_FILE][:40]),
    )
    yield from program_outputs.ours(folder, quick=quick)
    for word in ("import", "def ", "return", "Final"):
        yield from program_outputs.grepped(word)
    for part in ("service", "docs", "tests"):
        if (PROJECT / part).is_dir():
            yield from program_outputs.listings(PROJECT / part)
