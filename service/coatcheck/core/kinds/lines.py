"""What the lines of a text are like: stamped as a log's are, printed by a program, written as code, or told as prose.

A line counts for one of these, the most telling first, and only what it *begins* or *ends* with says much: a word in
the middle of it is what it talks about. A share of the lines decides, never one of them.
"""

import re
from itertools import pairwise
from typing import Final

from msgspec import Struct

from coatcheck.core.artifact import Sample
from coatcheck.core.text.scan import Scan

_COLOUR: Final = r"(?:\x1b\[[0-9;]*m)*"
_STAMP: Final = Scan(
    rf"^(?:[\w.-]{{1,30}} +\| )?{_COLOUR}(?:"
    r"[\[(<]?(?:task )?\d{4}[-/.]\d\d[-/.]\d\d[T _-]\d\d:\d\d"  # 2026-03-01 08:00
    r"|[\[(]?\d\d:\d\d:\d\d\b"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"  # Mar  1 08:00:00
    r"|(?:[A-Z][a-z]{2}, )?\d{1,2}[ -][A-Z][a-z]{2}[ -]\d{4} \d\d:\d\d:\d\d"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d"  # klog
    r"|1[5-9]\d{8}(?:\.\d{1,9})?[ :]"  # seconds since 1970
    r"|\[ {0,6}\d{1,8}\.\d{6}\]"  # a kernel's
    r"|<\d{1,3}>\d? ?[A-Z\d]"  # a syslog's priority
    rf"|\[? ?{_COLOUR}(?:INFO|DEBUG|NOTICE|WARN|WARNING|ERROR|TRACE|FATAL|CRITICAL|SEVERE)\b{_COLOUR} ?(?:[:\]|(]"
    rf"| {{2,}}\S| [\w.]{{3,}}:)"
    r"|(?:time|ts|t|level|lvl|severity)=\S"
    r"|\S{1,60} \S{1,40} \S{1,40} \[\d\d/[A-Z][a-z]{2}/\d{4}:"  # an access log's
    r"|[\w.@/-]{1,40}:? \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"  # a name, then the time
    r"|\[(?:taskcluster|GIN|Pipeline)\b"
    r")"
)
_PRINTED: Final = Scan(
    rf"^{_COLOUR}(?:"
    r"[-dlcbps][-rwxsStT]{9}[.+@]? "  # ls -l
    r"|total \d+$|\$ \S| ?> git |\+{1,3} [a-z]+ |Started by |Finished: [A-Z]+$|Build step \'|BUILD [A-Z]+"
    r"|\[[A-Z][\w-]+\] [A-Z$]|(?:root|\w+)@[\w.-]+:\S*[$#]|PS [A-Z]:\\|C:\\\S*>"
    r"|(?:[\w.+-]+/)*[\w.+-]+\.\w{1,5}:\d+(?::\d+)?(?::| (?:-|error|warning)|$)|[\w./-]+\(\d+\): "  # path:12:
    r"|(?:Binary file |[\w./-]{3,}/[\w.+-]+:\d+[:-]|[\w./+-]+:\d+$)"
    r"|Traceback \(most|  File \"[^\"]+\", line \d+|\w*(?:Error|Exception|Warning|Interrupt)(?::|$)"
    r"|During handling of"
    r"|\s+at [\w.$<>\[\] /]+ ?\(|E {3}|>       |\s+\^[~^]*\s*$|\s*\d* +\| +[~^]"
    r"|(?:make|gcc|ld|cc1|clang|cargo|rustc|javac|node|npm|yarn|pnpm|git|fatal|error|warning|note|help|hint|info|sh"
    r"|bash|cp|rm|ls|cat|mv|find|grep|pip|docker|curl|tar|WARNING|ERROR|Error|Warning)(?:\[[\w.]+\])?: "
    r"|npm (?:ERR!|WARN|warn|error|notice|info)|(?:gcc|g\+\+|cc|clang|ld|ar|javac|rustc|node|python3?|cargo|go"
    r"|docker) \S*[-./\w]+ "
    r"|={3,} .* ={3,}$|_{5,} .* _{5,}$|-{5,} .* -{5,}$|={20,}$|-{3,} [\w.]"
    r"|[\w./-]+\.\w{1,4}(?:::[\w\[\]<>.,-]+)+ |[\w./-]+\.py [.FEsx]+|(?:PASS|FAIL|PASSED|FAILED|SKIPPED|ERROR|ok"
    r"|not ok|XFAIL)(?: |\t|:|$)"
    r"|={3} (?:RUN|PAUSE|CONT)|--- (?:PASS|FAIL|SKIP)|\s*[✓✔✗✖✘●○◯√→▶] |\[\s*(?:\d+/\d+|\d+%|OK|FAILED|RUN"
    r"|PASSED)\s*\]"
    r"|test_?\w* \(|.* (?:ok|\.\.\. \w+|OK|PASSED|FAILED|SKIPPED|DONE|Passed|Failed)(?: *\[ *\d+%\]| in [\d.]+m?s|)$"
    r"|Ran \d+ tests?|\d+ (?:passed|failed|packages?|files?|errors?|tests?|rows?|warnings?)\b"
    r"|(?:Tests|Test Suites|Snapshots|Time|Suites|Duration|Ran all)(?::| )"
    r"|(?:Collecting|Downloading|Downloaded|Installing|Installed|Building|Compiling|Compiled|Checking|Finished"
    r"|Running"
    r"|Successfully|Requirement already|Using cached|Unpacking|Preparing|Setting up|Selecting|Processing|Fetching"
    r"|Fetched|Resolving|Resolved|Reading|Writing|Wrote|Created?|Creating|Removing|Removed|Copying|Cloning|Pulling"
    r"|Pulled|Pushing|Updating|Updated|Uploading|Uploaded|Extracting|Generating|Linking|Loading|Loaded|Saved|Saving"
    r"|Starting|Started|Stopping|Listing|Scanning|Attaching|Uninstalling|Found existing|Get:\d+|Hit:\d+|Step \d+/\d+"
    r"|Sending build|On branch|Your branch|Changes (?:not|to)|Untracked files|nothing to commit|Plan: \d)\b"
    r"|\s+(?:Compiling|Finished|Running|Downloaded|Downloading|Checking|Fresh|Updating|Dirty|Doc-tests"
    r"|Using cached) \S"
    r"|\t(?:modified|new file|deleted|renamed|both modified):|[ MADRCU?!]{2} [\w./-]+$"
    r"|commit [0-9a-f]{7,40}\b|(?:Author|Merge|AuthorDate|Commit|Date): {1,7}\S|\^?[0-9a-f]{7,64}(?:  ?| \*| \()\S"
    r"| \S.* \| +(?:\d+ [+-]*|Bin)|\d+ files? changed|create mode \d{6}"
    r"|#\d+ |[*<>] (?:[A-Z][\w-]*: |HTTP/|GET |POST |Trying|Connected|TLS|SSL|[\w-]+: )|[<>] ?$|[{}] \[\d"
    r"|(?:usage|Usage|USAGE|options|Options|OPTIONS|positional arguments|Commands|COMMANDS|Arguments|Flags):?"
    r"| {1,8}-{1,2}[\w?#][\w-]*(?:[ ,=\[<]|$)| {2,8}[\w-]+(?:, [\w-]+)* {2,}[A-Z\[(]"
    r"| *(?:Epoch|Iteration|Step|Round|Batch) \[?\d+|[\w ]*:? *\d+%\|?[█#=> -]"
    r"|\.{0,2}/(?:[\w.+@,:=%~\[\] -]+/?)+$|[A-Z][A-Z0-9_]{2,}=\S*|[│| ]*[├└`+](?:──|--) ?\S"
    r"|[ \t]*[0-9a-f]{4,16}:?[ \t]{1,3}(?:[0-9a-f]{2,4} ){2,}|[0-9a-f]{8,16} [\w ] |\s+U \w|\s+\d+ +\d+ +\d+ +\S"
    r"|[\w./-]+: In (?:function|member|static|file)|\d[\d.]*[KMGT]?\t\.{0,2}/|\S+ on /\S* type "
    r"|[A-Z][A-Z0-9_]{3,} {3,}"
    r"|  # \S+ (?:will|must) be|  +[-+~]{1,2}/?\+? \w+ +[=\"{]|Terraform |Plan: |declare -|\*{3} "
    r"|\s+(?:\d+ +)?(?:>> +)?\d+ [A-Z_]{4,}(?: +\d|$)"
    r")"
)
_CODED: Final = Scan(
    r"^[ \t]*(?:def |class |import [\w.{*\"']|from \S+ import |#include|#(?:if|ifdef|ifndef|define|endif|pragma"
    r"|else|undef)\b"
    r"|package [\w.]+;?$|func |fn |pub |const |let |var |val |public |private |protected |static |extern |typedef "
    r"|struct |enum |union "
    r"|return\b|if ?\(|for ?\(|while ?\(|switch ?\(|else\b|elif |elsif |try\b|catch\b|except\b|finally\b|raise "
    r"|throw |assert |async |await "
    r"|[{}\])]+[;,)]*[ \t\r]*$|//|/\*|\*/| ?\* |\*$|#!|@\w+|\"\"\"|'''|using |namespace |module |export "
    r"|interface |impl |trait "
    r"|type \w+ ?=|\w+ = (?:new |\[|\{|function|require)|<\?(?:xml|php)|</?\w[\w:.-]*(?:[ />]|$)|<!--|-->"
    r"|(?:if|for|while|case|then|fi|done|esac|do|elif|unless|begin|end|loop|local|my|our|sub|use|require|echo|set"
    r"|unset|export|source|function|foreach|endif|endfunction|endmacro|endforeach|macro|alias|setlocal|augroup"
    r"|autocmd|syn|hi)(?: |$|\t|\()"
    r"|(?:cdef|cpdef|ctypedef|cimport|include|nogil|template|constexpr|inline|void|int|char|unsigned|float|double"
    r"|bool|long|size_t|auto|volatile)[ *]+\w"
    r"|(?i:subroutine|program|integer|real|double precision|character|implicit|end (?:subroutine|program|function"
    r"|module|do|if)|call|common|dimension|contains|use|intent|parameter|module) ?[\w(:,*]"
    r"|(?i:select|insert into|create|alter|drop|update|delete from|grant|comment on|begin|commit|language|as|from"
    r"|where|values|\\echo|\\connect) ?[\w('\"$*;@\\]"
    r"|AC_\w+|m4_\w+|dnl\b|changequote|AM_\w+|AT_\w+"
    r"|\((?:def\w+|let\*?|if|when|setq|lambda|require|provide|interactive|cond|progn|and|or|not|while)\b|;{1,4} "
    r"|[\w.-]+ ?:?\??\+?= ?\S|[\w.-]+ ?=$|\[[\w. :\"'@/-]{1,80}\]{1,2}[ \t\r]*$"
    r"|[\w.\"'/ -]{1,60}: ?(?:[|>&*!\[{\"'\d-]|$|true|false|null|\S+$)|- [\w.-]+: |- [\w.\"'/-]+$|(?:#|;|!|--|%|\""
    r"|REM |rem |::|C |'|\.\\\") ?\S"
    r"|#{1,6} \S|```|~~~|\.\. [\w_:|-]|:[\w-]+:|\* \[?\S|\|.*\|$|> |[=~^*+-]{3,}[ \t\r]*$|msgid |msgstr|%\w|\{%|\{\{"
    r"|[\w./$(){}%-]+:(?: |$)|\t[@-]?\w|RUN |FROM |COPY |ENV "
    r"|\w+ ?\()"
    r"|(?:[;{}\\]|\)[ \t]*(?:->|:|\{)|=>|&&|\|\||[\w\])] ?[=<>+-]=? ?\(?\[?\{?|,|\()[ \t\r]*$"
)
_HARD: Final = Scan(
    r"^[ \t]*(?:def \w+\(|class \w+.*[:{]|import [\w.]+|from \S+ import |#include [<\"]|func \w|fn \w+|pub \w"
    r"|const \w+ ?=|let \w+|var \w"
    r"|public |private |protected |static \w|extern |typedef |return\b.*;?$|if ?\(.*\{|for ?\(|while ?\(|\}|\{$|//"
    r"|/\*|\*/| \* |#!|@\w+(?:\(|$)"
    r"|namespace |export |interface |type \w+ ?=|<\?xml|</\w|<\w[\w:-]*(?: [\w:-]+=\"|>)|#(?:ifdef|ifndef|define"
    r"|endif|if|else)\b|\"\"\"|self\.)"
    r"|[;{][ \t\r]*$|\)[ \t]*(?:->.*|):[ \t\r]*$"
)
_PROSE: Final = Scan(
    r"^[ \t\"'(]*(?:[\w,;:'\"()/.&`\x{2019}-]+  ?){5,}[\w,;:'\"()/.&`?!<>@-]+[ \t\r]*$"
    r"|^[^\x00-\x7f].*[^\x00-\x7f]|[^\x00-\x7f]{3}[ ,.][^\x00-\x7f]{3}"
)
_NUMBER: Final = Scan(r"^ {0,9}\d{1,7}(?:[:|\t→]| [|│:] ?| {1,2}\S)")
_LISTED: Final = Scan(r"^[\w./+@-]+(?:/[\w.+@~-]*)+$|^[\w.+@-]+$")
"""A name or a path and nothing else."""

LOOK: Final = 16 * 1024
_HEAD_LINES: Final = 80
_TAIL_LINES: Final = 30
_LINE_CAP: Final = 240
"""How much of a line may speak for it."""


class Lines(Struct, frozen=True):
    """Shares of the lines looked at, each from 0 to 1; `stamped`, `printed`, `coded` and `prose` do not overlap."""

    count: int
    stamped: float = 0.0
    printed: float = 0.0
    coded: float = 0.0
    prose: float = 0.0
    hard: float = 0.0
    """Lines that are code and can hardly be anything else."""
    listed: float = 0.0
    aligned: float = 0.0
    """Lines with columns that stand where those of the line before stand."""
    opening: float = 0.0
    closing: float = 0.0
    """Of the first and of the last dozen lines, those that are stamped or printed. A program may print a file amidst
    what else it says; a file begins and ends as what it is."""
    numbered: bool = False
    """Lines begin with numbers that count up, as an editor or `cat -n` shows a file."""


def chosen(sample: Sample) -> list[bytes]:
    """The first lines of the payload and the last ones, each as far as it may speak, without blank ones."""
    head = sample.head[:LOOK]
    first = head.split(b"\n", _HEAD_LINES)
    rest = first[_HEAD_LINES] if len(first) > _HEAD_LINES else b""
    tail = (sample.tail or sample.head[len(head) :])[-LOOK:] or rest
    lines = first[:_HEAD_LINES] + (tail.rsplit(b"\n", _TAIL_LINES)[-_TAIL_LINES:] if tail else [])
    return [line[:_LINE_CAP] for line in lines if line and not line.isspace()]


def look(lines: list[bytes]) -> Lines:
    """What these lines are like."""
    count = len(lines)
    if not count:
        return Lines(0)
    # Each expression is asked of the lines that are nothing yet: every hit is a call, and costs what many misses cost.
    stamped = _STAMP.among(lines, range(count))
    stamped -= _PERMISSIONS.among(lines, stamped)
    rest = set(range(count)) - stamped
    printed, hard = _PRINTED.among(lines, rest), _HARD.among(lines, rest)
    prose = _PROSE.among(lines, rest - printed - hard)
    others = rest - printed - prose
    coded = others if others <= hard else _CODED.among(lines, others)
    said = stamped | printed
    block = b"\n".join(lines)
    return Lines(
        count,
        stamped=len(stamped) / count,
        printed=len(printed) / count,
        coded=len(coded) / count,
        prose=len(prose) / count,
        hard=len(hard) / count,
        listed=len(_LISTED.among(lines, rest)) / count,  # a name has none of the signs that a stamp has
        aligned=_aligned(lines[:_ALIGNED]) if len(prose) + len(hard) < count / 2 and b"   " in block else 0.0,
        opening=_share(range(min(_EDGE, count)), said),
        closing=_share(range(max(0, count - _EDGE), count), said),
        numbered=_NUMBER.share(block, count, 0.6) and _counts_up(lines),
    )


_EDGE: Final = 12


def _share(numbers: range, said: set[int]) -> float:
    return len(said.intersection(numbers)) / len(numbers)


_PERMISSIONS: Final = Scan(r"^[-dlcbps][-rwxsStT]{9}[.+@]? |^\^?[0-9a-f]{7,40} \(")


def _counts_up(lines: list[bytes]) -> bool:
    numbers: list[int] = []
    for line in lines:
        digits = line[:12].lstrip()
        size = len(digits) - len(digits.lstrip(b"0123456789"))
        if size:
            numbers.append(int(digits[:size]))
    rising = sum(0 < high - low <= 3 for low, high in pairwise(numbers))  # noqa: PLR2004 - blank lines are not here
    return len(numbers) > 3 and rising >= 0.7 * (len(numbers) - 1)  # noqa: PLR2004


_GAPS: Final = re.compile(rb"\S {2,}(?=\S)")
_COMMON: Final = 2
_ALIGNED: Final = 50


def _aligned(lines: list[bytes]) -> float:
    """How many lines have the beginnings of two columns in common with the line before."""
    same = 0
    before: set[int] = set()
    for line in lines:
        starts = {match.end() for match in _GAPS.finditer(line)}
        same += len(starts & before) >= _COMMON
        before = starts
    return same / max(1, len(lines) - 1)
