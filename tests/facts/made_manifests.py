"""Streams of YAML documents, as PyYAML writes them: manifests, values, lists, with comments and empty documents."""

import random
from collections import Counter
from collections.abc import Iterator

import yaml

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.found_records import yaml_lists
from facts.says_records import RecordsOracle
from facts.says_source import DocumentsOracle, OutlineOracle

_KINDS = ("Service", "Deployment", "ConfigMap", "Secret", "Job", "CustomResourceDefinition")
_NAMES = ("desk", "a-b.c", "007", "yes", "größe", "name: odd", "x" * 70)


def _document(rng: random.Random) -> tuple[object, str | None, str | None]:
    """A document with its kind and its name."""
    if rng.random() < 0.1:
        return [f"item {n}" for n in range(rng.randint(1, 4))], None, None
    name, kind = (rng.choice(each) if rng.random() < 0.9 else None for each in (_NAMES, _KINDS))
    metadata = {"namespace": rng.choice(_NAMES), "labels": {"name": "inner", "app": "x"}}
    metadata |= {"generateName": "run-"} if name is None else {"name": name}
    document: dict[str, object] = {"apiVersion": "v1", "metadata": metadata, "spec": {"name": "other", "replicas": 3}}
    document |= {} if kind is None else {"kind": kind}
    if rng.random() < 0.3:
        document["data"] = {"name": "neither", "text": "---\nkind: Forged\n"}
    return document, kind, name


def manifests(rng: random.Random, count: int) -> Iterator[Case]:
    """Streams whose documents have kinds and names, or lack one, with keys in any order."""
    for _ in range(count):
        lines: list[str] = []
        titles: dict[int, str] = {}
        kinds: list[str] = []
        for number in range(rng.randint(2, 60)):
            if number or rng.random() < 0.5:
                lines += ["---"] * rng.choice((1, 1, 1, 2))
            document, kind, name = _document(rng)
            begins = max(1, len(lines))
            if rng.random() < 0.2:
                lines.append("# Source: chart/templates/one.yaml")
            text = yaml.safe_dump(document, sort_keys=rng.random() < 0.5, allow_unicode=True, width=1000)
            titles[begins] = " ".join(filter(None, (kind, name))) or text.split("\n", 1)[0]
            kinds += [kind] if kind else []
            lines += text.splitlines()
        said = DeclaredMetadata(tool_name=rng.choice((None, "kubectl", "read_file")))
        counts = DocumentsOracle(len(titles), Counter(kinds))
        stream = "".join(f"{line}\n" for line in lines)
        oracles = (counts, OutlineOracle("Outline", titles, len(lines)), RecordsOracle(*yaml_lists(stream)))
        yield Case(stream.encode(), oracles, said)
