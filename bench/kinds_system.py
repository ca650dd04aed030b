"""What a well-filled machine has besides: its own files, logs and programs. Whatever is missing is left out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coatcheck.core.artifact import Kind
from kinds.corpus import LARGEST, Source
from kinds.environment_files import PROJECT, by_suffix, files, prose
from kinds.program_outputs import Command, grepped, run

_ROOTS: Final = tuple(map(Path, ("/usr/share", "/usr/include", "/etc", "/usr/lib/jvm", "/usr/src")))
_NAMED: Final = {
    Kind.LOG: ("/var/log", (".log", ".log.1", "syslog", "messages", "journal.txt")),
    Kind.TABLE: ("/usr/share/zoneinfo", (".tab",)),
}
_COMMANDS: Final[tuple[Command, ...]] = (
    *(("ls -l", ("ls", "-l", folder)) for folder in ("/etc", "/usr/bin", "/usr/share", "/usr/lib")),
    *(("ls -la", ("ls", "-laR", folder)) for folder in ("/etc/apt", "/usr/share/vim", "/usr/share/perl")),
    *(("ls", ("ls", folder)) for folder in ("/etc", "/usr/bin", "/usr/share/doc")),
    *(("find", ("find", folder, "-type", "f")) for folder in ("/etc", "/usr/share/man/man1", "/usr/share/vim")),
    *(("ps", ("ps", words)) for words in ("aux", "-ef", "axjf")),
    *(("df", ("df", words)) for words in ("-h", "-a")),
    ("du", ("du", "/etc")),
    ("env", ("env",)),
    ("mount", ("mount",)),
    ("dpkg -l", ("dpkg", "-l")),
    ("dpkg -s", ("dpkg", "-s", "bash", "git", "gcc")),
    ("apt", ("apt-cache", "policy", "bash", "git", "gcc")),
    ("lscpu", ("lscpu",)),
    ("free", ("free", "-m")),
    ("uptime", ("vmstat", "1", "2")),
    ("locale", ("locale", "-k", "LC_TIME")),
    ("git log", ("git", "-C", str(PROJECT), "log", "-n", "60")),
    ("git log --stat", ("git", "-C", str(PROJECT), "log", "--stat", "-n", "9")),
    ("git status", ("git", "-C", str(PROJECT), "status")),
    ("git ls-files", ("git", "-C", str(PROJECT), "ls-files")),
    ("git blame", ("git", "-C", str(PROJECT), "blame", "Makefile")),
    ("gcc", ("gcc", "-fsyntax-only", "-Wall", "-x", "c", str(PROJECT / "Makefile"))),
    ("gcc", ("gcc", "-v", "--help=optimizers")),
    ("make", ("make", "-n", "-B", "-C", str(PROJECT), "check", "test", "bench")),
    ("make", ("make", "-p", "-C", str(PROJECT), "help")),
    ("grep", ("grep", "-rn", "include", "/usr/include/linux", "--include=*.h")),
    ("grep", ("grep", "-rn", "Port", "/etc")),
    ("grep -c", ("grep", "-rc", "error", "/usr/share/vim")),
    ("objdump", ("objdump", "-d", "/bin/true")),
    ("nm", ("nm", "-D", "/usr/lib/x86_64-linux-gnu/libc.so.6")),
    ("readelf", ("readelf", "-a", "/bin/true")),
    ("ldd", ("ldd", "/usr/bin/git")),
    ("strings", ("strings", "/bin/true")),
    ("xxd", ("xxd", "-l", "9000", "/bin/true")),
    ("hexdump", ("hexdump", "-C", "-n", "9000", "/bin/true")),
    ("java", ("java", "-XshowSettings:all", "-version")),
    ("node", ("node", "-e", "function f(n){if(!n)throw new Error('no');f(n-1)};console.log([1,{a:2}]);f(9)")),
    ("cargo", ("cargo", "--list")),
    ("rustc", ("rustc", "--explain", "E0308")),
    ("rustc", ("rustc", "--print", "target-features")),
    ("perl", ("perl", "-V")),
    ("openssl", ("openssl", "ciphers", "-v")),
    ("openssl", ("openssl", "version", "-a")),
    ("help", ("git", "--help")),
    ("help", ("tar", "--help")),
    ("help", ("gcc", "--help")),
    ("help", ("ls", "--help")),
    ("help", ("curl", "--help", "all")),
    ("getconf", ("getconf", "-a")),
    ("sysctl", ("sysctl", "-a")),
    ("set", ("bash", "-c", "set -x; for n in 1 2 3 4 5 6 7 8; do echo $n; test $n = 3; done; ls /nowhere")),
    ("ip", ("ip", "addr")),
    ("ss", ("ss", "-tan")),
    ("systemctl", ("systemctl", "list-unit-files")),
    ("tar -tv", ("tar", "-tvf", "/usr/share/doc/libc6/changelog.Debian.gz")),
    ("wc", ("bash", "-c", "wc /usr/include/*.h")),
    ("sha256sum", ("bash", "-c", "sha256sum /usr/include/*.h")),
    ("diff -q", ("diff", "-rq", "/usr/include/linux", "/usr/include/asm-generic")),
)


def system(folder: Path) -> Iterator[Source]:
    """The machine's files by their names, rendered manuals, its logs, and what its programs print."""
    for root in _ROOTS:
        paths = files(root, most=40_000)
        yield from by_suffix(paths, root)
        yield from prose(paths, root)
    for kind, (place, ends) in _NAMED.items():
        for path in files(Path(place)):
            if path.name.endswith(ends):
                yield Source(kind, path.name, str(path), path.read_bytes()[: LARGEST * 2])
    yield from _manuals(folder)
    yield from _read_by_name()
    yield from run(_COMMANDS, folder, seconds=20)
    yield from _other_kinds(folder)
    yield from grepped("class ")


def _manuals(folder: Path) -> Iterator[Source]:
    for page in (
        "ls",
        "git-rebase",
        "bash",
        "gcc",
        "find",
        "tar",
        "curl",
        "perlre",
        "make",
        "rsync",
        "printf",
        "passwd",
    ):
        for source in run((("manual", ("bash", "-c", f"MANWIDTH=90 man {page} | col -bx")),), folder):
            if len(source.data) > 2_000:
                yield Source(Kind.TEXT, "manual", page, source.data)


def _read_by_name() -> Iterator[Source]:
    for name in (
        "bash.bashrc",
        "profile",
        "sudoers",
        "ssh/ssh_config",
        "login.defs",
        "adduser.conf",
        "nanorc",
        "services",
    ):
        path = Path("/etc") / name
        if path.is_file():
            yield Source(Kind.CODE_OR_FILE, "etc", name, path.read_bytes())
    for path in files(Path("/usr/share/common-licenses")):
        yield Source(Kind.TEXT, "licence", path.name, path.read_bytes())


def _other_kinds(folder: Path) -> Iterator[Source]:
    for kind, family, words in (
        (Kind.DIFF, "git show", ("git", "-C", str(PROJECT), "show", "HEAD", "--", "docs")),
        (Kind.DIFF, "git show", ("git", "-C", str(PROJECT), "show", "HEAD~1", "--", "service")),
        (Kind.DIFF, "git diff", ("git", "-C", str(PROJECT), "diff", "HEAD~3", "HEAD", "--", "docs", "Makefile")),
        (Kind.DIFF, "format-patch", ("git", "-C", str(PROJECT), "format-patch", "--stdout", "-1", "--", "docs")),
        (Kind.DIFF, "diff -r", ("diff", "-ru", "/usr/include/linux", "/usr/include/asm-generic")),
        (Kind.LOG, "journal", ("journalctl", "-n", "500", "--no-pager")),
        (Kind.LOG, "kernel ring", ("dmesg",)),
        (Kind.JSON, "json tool", ("lsblk", "--json", "--all", "-O")),
        (Kind.JSON, "json tool", ("ip", "-j", "addr")),
        (Kind.JSON, "json tool", ("docker", "info", "--format", "{{json .}}")),
    ):
        for source in run(((family, words),), folder):
            if len(source.data) > 500:
                yield Source(kind, family, source.name, source.data)
