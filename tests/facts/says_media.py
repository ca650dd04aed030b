"""What is known of the facts of images, sounds, archives and databases."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_UNITS: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE: Final = r"(\d+(?:\.\d)?) (B|kB|MB|GB)"


class HeaderOracle:
    """Understands the one line that tells a format."""

    def __init__(self, name: str, *facts: str) -> None:
        """`facts` are those that may stand behind the name."""
        self._name = name
        self._facts = facts

    def __call__(self, line: str) -> bool:
        if not line.startswith("Format: "):
            return False
        name, *told = line.removeprefix("Format: ").split(", ")
        assert name == self._name, line
        assert set(told) <= set(self._facts), (line, self._facts)
        return True


class ArchiveOracle:
    """Understands how many files there are, how large they are, and their names."""

    def __init__(self, name: str, files: Sequence[tuple[str, int]], *, exact: bool = True) -> None:
        """`exact`: whether the whole archive can be read."""
        self._name = name
        self.files = list(files)
        self._exact = exact

    def __call__(self, line: str) -> bool:
        line = line.removeprefix("Format: ")
        if line == self._name:
            return True
        if line.startswith(f"{self._name}: "):
            found = re.fullmatch(
                rf"(at least )?(\d+) files?(?:, {_SIZE} unpacked)? \(sizes as stated\)",
                line.removeprefix(f"{self._name}: "),
            )
            assert found is not None, line
            if found[1]:
                assert int(found[2]) <= len(self.files)
            else:
                assert int(found[2]) == len(self.files), line
            if found[3]:
                about(found[3], found[4], sum(size for _, size in self.files))
            return True
        label, _, told = line.partition(": ")
        if label == "Folders":
            self._folders(told)
        elif label == "Largest":
            self._listed(told, sorted(self.files, key=lambda file: -file[1])[:5])
        elif label == "Files":
            self._listed(told, self.files)
        elif label == "First files":
            self._listed(told, self.files, all_of_them=False)
        else:
            return False
        return True

    def _folders(self, told: str) -> None:
        """Each folder that is named has so many files, no other has more, and the rest are counted."""
        paths = [name.split("/") for name, _ in self.files]
        depth = 0
        while all(len(path) > depth + 1 for path in paths) and len({path[depth] for path in paths}) == 1:
            depth += 1
        sizes = Counter("/".join(path[: depth + 1]) + "/" for path in paths if len(path) > depth + 1)
        told, _, rest = told.partition("; … ")
        counts: list[int] = []
        for folder, count in re.findall(r"(.*?) (\d+) files?(?:; |$)", told):
            counts.append(int(count))
            assert counts[-1] == sum(n for each, n in sizes.items() if each.startswith(folder.rstrip("…"))), told
        assert counts == sorted(sizes.values(), reverse=True)[: len(counts)], told
        assert len(counts) + (int(rest.split()[0]) if rest else 0) == len(sizes), told

    @staticmethod
    def _listed(told: str, files: Sequence[tuple[str, int]], *, all_of_them: bool = True) -> None:
        at = 0
        for name, size in files:
            if at == len(told) and not all_of_them:
                return
            shown = name if len(name) <= 160 else f"{name[:160]}…"
            assert told.startswith(f"{shown} ", at), (shown, told[at : at + 90])
            found = re.compile(rf"{_SIZE}(?:; |$)").match(told, at + len(shown) + 1)
            assert found is not None, told[at : at + 90]
            about(found[1], found[2], size)
            at = found.end()
        assert at == len(told), told[at:]


def about(number: str, unit: str, size: int) -> None:
    """A size as it is written stands for one of so many bytes."""
    step = _UNITS[unit] * (0.1 if "." in number else 1)
    assert abs(float(number) * _UNITS[unit] - size) <= step / 2 + 1e-6, (number, unit, size)
