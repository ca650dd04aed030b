"""Classifies lines by what they state: a failure, a verdict, a warning. One lexicon for every tool and language.

RE2 matches all expressions in one pass, in time linear in the line. The lexicon does not decide whether a payload
failed: a manual that explains errors states no failure, and only the payload as a whole shows this (see `core/card`).
"""

# ruff: noqa: E501, RUF001 - an expression is easiest to read on one line, and quotes what programs print

import re
from math import inf
from typing import Any, Final, cast

import re2

from coatcheck.core.text.scan import BlockPattern

SURE: Final = 1
"""Flag of a line that states a failure, and hardly ever means anything else."""
STRONG: Final = 2
"""Flag of a line that states that something went wrong."""
WORD: Final = 4
"""Flag of a line that contains a word of failure."""
VERDICT: Final = 8
"""Flag of a line that states how a run ended, well or badly."""
WARNING: Final = 16
"""Flag of a line that states a warning."""
BENIGN: Final = 32
"""Flag of a line that denies a failure, or mentions one only as an option, a file or a command."""
SUMMARY: Final = 64
"""Flag of a line that states at least three counts of what was done."""
ENDED: Final = 128
"""Flag of a line that states that something ended with a status of failure: the cause is above the line."""
GRAVE: Final = 256
"""Flag of a line with which a program or a kernel itself reports that it broke: other complaints are consequences."""
PASSED: Final = 512
"""Flag of a line that reports a passed test, whose name may contain anything: all other flags are dropped."""
FLAG_BITS: Final = 10
"""Number of bits for these flags. In the bits above, `classify` sets one for each pattern that a line matches: lines
with equal bits say the same."""

_FAILURE: Final = SURE | STRONG | WORD
_COUNTED: Final[dict[int, tuple[str, ...]]] = {
    _FAILURE: (
        r"(?i)\b[1-9]\d* (?:tests? |specs? |checks? |examples? |scenarios? )?(?:failed|failing|failures?|errors?|errored|broken|crashed)(?:[^\w=]|$)",
        r"(?i)\b(?:fail(?:ed|ures?|ing)?|errors?|broken) ?[=:] ?[1-9]",
        r"\" 5\d\d (?:\d|-)",
    ),
    _FAILURE | ENDED: (
        r"(?i)\b(?:exit(?:ed|s|ing)?|terminated|finished|completed|returned)(?: with| a)?(?: non-?zero)?(?: exit| return)? (?:status|code)\W*[ :=(]-?[1-9]|\bexited with -?[1-9]",
    ),
    STRONG: (
        r"(?i)\b(?:exit(?:ed|s|ing)?|returned|return|terminated|finished|status|code|rc)\b\W?\W?(?:with )?(?:non-?zero )?(?:exit )?(?:status|code|value)?[ :=(]+-?[1-9]",
        r"(?i)\b(?:status|http|HTTP/\d(?:\.\d)?\"?)(?: code)?[ :=]+[45]\d\d\b|\" [45]\d\d ",
        r"\b(?:GET|POST|PUT|PATCH|DELETE|HEAD) \S+ \(?[45]\d\d\b|\b[45]\d\d\)? (?:\|.*\| |<)?(?:GET|POST|PUT|PATCH|DELETE|HEAD) ",
    ),
}
"""Patterns of failures that depend on a number, by their flags: `3 failed` is a failure, and `0 failed` is not."""
_STATED: Final[dict[int, tuple[str, ...]]] = {
    _FAILURE: (
        r"\b(?:FAIL|(?:[A-Z]+_)*FAILED|FAILURES?|FAILS|FAILING(?:_[A-Z]+)?|UNEXPECTED|ERROR|FATAL|CRITICAL|PANIC|SEVERE|EMERG|TIMEOUT|ABORTED)(?:[^\w=]|$)",
        r"(?i)\b(?:error|fatal|fatal error|critical|panic|failure)(?: ?[\[(][\w -]+[\])])? ?:(?:[^:]|$)",
        r"(?i)\berrors? (?:TS|CS|C|MSB|NU|NETSDK|LNK|BC|FS|AD)\d",
        r"(?:^|[\s.:(\[])[A-Za-z_][\w.$]*(?:(?:Error|Exception|Fault|Panic):(?:[^:]|$)|\w(?:Error|Exception|Fault|Panic)(?:\s*$| \())",
        r"Traceback \(most recent|\bpanicked at\b|^\s*Caused by:|\bUncaught\b|\bUnhandled\b|\w+Sanitizer\b",
        r"^\s*not ok\b|^--- FAIL|\bundefined reference to\b|\bcore dumped\b|##\[error\]|^::error|\bSegmentation fault|\bUndefined control sequence|\bsignal SIG(?:SEGV|ABRT|BUS|ILL|FPE|SYS)\b",
        r"(?i)\b(?:level|lvl|severity|log\.level)\W+(?:error|fatal|critical|crit|alert|emerg|panic|severe)\b",
        r"^\W*(?:[✗✘✖❌×]|●.*›)|(?i)^\s*(?:err!|npm err!|error |e: )",
    ),
    _FAILURE | GRAVE: (
        r"\bOops\b|\bKernel panic\b|\bBUG: |\bkernel BUG at\b|\bgeneral protection fault\b|\bunable to handle (?:kernel|page)\b|\w+Sanitizer: |\bruntime error: |\bSegmentation fault\b|\bcore dumped\b|\breceived signal SIG(?:SEGV|ABRT|BUS|ILL|FPE)\b",
        r"\bpanicked at\b|^panic: |^fatal error: |\bFatal Python error\b|^Current thread 0x|\bOut of memory: Kill|\bdouble free\b|\bstack smashing\b|\bInvalid (?:read|write) of size\b",
    ),
    STRONG: (
        r"\bSIG(?:SEGV|ABRT|KILL|BUS|ILL|FPE|TERM)\b|\bOOM(?:Killed)?\b|\b(?:CrashLoop|ImagePull)BackOff\b|\bout of memory\b|\bKilled\b|\bAborted\b|\bMemoryError\b",
        r"(?i)\b(?:cannot|can't|can not|could not|couldn't|unable to|failed to|refus(?:ed|es|ing) to|not able to|won't)\b",
        r"(?i)\bno (?:such|matching|module|rule|space|route|permission|valid)\b|\bdoes(?: not|n't)\b|\bdid(?: not|n't)\b",
        r"(?i)\bnot (?:found|authori[sz]ed|permitted|supported|allowed|defined|exist|a valid|available|satisfied|installed|recogni[sz]ed|implemented|match)",
        r"(?i)\b(?:level|lvl|severity|log\.level)\W+warn(?:ing)?\b",
        r"(?i)\b(?:denied|refused|forbidden|unauthori[sz]ed|rejected)\b",
        r"(?i)\btime(?:d)?[ -]?out\b|\bdeadline exceeded\b|\bexceed(?:ed|s)\b|\bexpired\b",
        r"(?i)\bexpect(?:ed|s)?\b.*\b(?:got|found|but|actual|received|to (?:be|equal|have|match))\b|^\s*(?:expected|received|actual|got|wanted|want)\s*:|\bassert(?:ion)?\b.*\bfail",
        r"(?i)\b(?:mismatch(?:ed)?|invalid|illegal|undefined|undeclared|unresolved|missing|corrupt(?:ed)?|deadlock|conflict(?:s|ing)?|crash(?:ed|es)?|unreachable|out of (?:range|disk|bounds|sync)|incompatible|malformed|unexpected|violation|violates|overflow|leak(?:s|ed)?|stuck|unhealthy|dropp?ed connection|connection reset|broken pipe|giving up|gave up|backoff|oom-kill)\b",
    ),
    STRONG | WORD: (
        r"(?i)\b(?:because of|due to|with) (?:\w+ )?errors?\b|\berrors? (?:while|during|in|occurred|found|was|at|on|from|code|\w+ing)\b|\w error\W*$|\bfail(?:ed|ure|s)? (?:with|because|in|on|at|after|during|while|due|for|by|again|\d)|\bfailed\b",
        r"^E +\S|^\s*\*\*\* |\*\*\* \[|^error\b|\bexception (?:in|at|while|of type)\b|\bTEST FAILURE\b",
        r"(?i)\bfehler|\berreur|\berrore\b|\berro\b|ошибк|错误|錯誤|失败|失敗|エラー|오류|실패|خطأ|\bfallo\b|\béchec|\bfehlgeschlagen|не удалось|异常|例外",
    ),
    WORD: (
        r"(?i)\berrors?\b|\bfail\w*|\bexception\w*|\babort\w*|\bassert\w*|\bkill(?:ed)?\b|\bpanic\b|\btraceback\b|\bproblem\b|\bbroken\b|\bwrong\b|\bdead\b|\balert\b|\bcancell?ed\b",
    ),
    WARNING: (
        r"(?i)\bwarn(?:ing|ings)?\b|\bdeprecat\w*|\bskipp?(?:ed|ing)\b|\bretry(?:ing)?\b|\bretries\b|\bunused\b|\bcaution\b|\bslow\b",
    ),
    VERDICT: (
        r"(?i)\b(?:builds?|job|test run|tests?|test suites?|suites?|command|process|pipeline|deploy(?:ment)?|compilation|install(?:ation)?|run|results?|status|task|step|check|finished|summary)\b.*\b(?:failed|failure|fail|succeeded|success|successful(?:ly)?|passed|passing|completed?|finished|done|exited|errored|unstable|aborted|cancell?ed|ok|green|red)\b",
        r"(?i)\b\d+ (?:\w+ )?(?:passed|passing|failed|failing|failures?|errors?|skipped|warnings?|problems?)\b|^\W*(?:tests? run|found|ran|total|totals|executed)\b:?\s.*\d",
        r"(?i)\bexit(?:ed)?(?: with)?(?: code| status)?[ :=]+\d+|^\W*(?:ok|done|finished|completed|success|failed|passed|error|pass|fail)\W*$|\bbuild (?:success|failure|failed)|^make(?:\[\d+\])?: \*\*\*|^(?:FAILED|OK|PASS|FAIL)\b",
    ),
    SUMMARY: (r"^(?:[^\s\d,][^\d,]*)?\d+ [A-Za-z][^,\d]*, \d+ [A-Za-z][^,\d]*,? (?:and )?\d+ [A-Za-z]",),
    PASSED: (
        r"^\s*(?:[✓✔√☑✅]|ok \d+\b|ok  +\S|--- PASS\b|PASS(?:ED)?:? +[^\s\d]|\[ +OK +\]|\[PASS(?:ED)?\])|(?:\.\.\.+|:|\t) *(?:ok|OK|PASS(?:ED)?|passed)(?: \(?[\d.]+ ?m?s\)?)?\s*$|[^\d\s,:]\s+PASSED(?:\s+\[ *\d+%\])?\s*$",
    ),
    BENIGN: (
        r"(?i)\b(?:0(?: with)?|no|zero|without)(?: [\w/]+)? (?:errors?|failures?|failed|warnings?|problems?|issues?)\b|\b(?:errors?|failures?|failed|fail|warnings?) ?[=:] ?0\b",
        r"(?i)\becho\b|\s--?W?\w*(?:error|fail|warn)|\bset -e|\|\| ?true|\bon[_-]?error|\berrexit|\bignor(?:e|ed|ing)\b|\bexport \w|\ballow[_-]fail",
        r"(?i)\b[\w-]*(?:errors?|exceptions?|failures?|failed|fail|fatal|panic|abort|assert)[\w-]*\.(?:jsx?|tsx?|pyc?|rs|go|h|hpp|c|cc|cpp|o|obj|java|class|rb|html?|md|rst|txt|json|ya?ml|so|dll|scala|kt|php|css|xml|log|d)\b|lib\w*error",
        r"(?i)\b(?:level|lvl|severity|log\.level)\W+(?:info|debug|trace|notice)\b|\bDEBUG\b|\bTODO\b|\bPASS(?:ED)?\b|\bok\b|\bsucce(?:ss|eded)|^\s*[✓✔√☑✅]",
    ),
}
_PATTERNS: Final = [(flags, each) for table in (_COUNTED, _STATED) for flags, some in table.items() for each in some]
# No pattern has a bounded repetition of more than one character: each would multiply the number of RE2's states.
_STATEMENT_WORDS: Final = {
    SURE: BlockPattern(
        r"[A-Za-z_][\w.]*(?:Error|Exception|Fault)\b|\b(?:FAIL(?:ED|URE|URES)?|ERROR|FATAL|CRITICAL|PANIC|SEVERE|"
        r"[Ff]atal|[Ee]rror|[Ff]ailed|[Ff]ailure|panicked|undefined reference|not ok)\b|[✗✘✖]|\" 5\d\d"
    ),
    STRONG: BlockPattern("|".join(f"(?:{each})" for flags, each in _PATTERNS if flags & STRONG and not flags & SURE)),
    WARNING: BlockPattern("|".join(_STATED[WARNING])),
}
"""Finds the words that make a line a statement of a class (SURE, STRONG or WARNING)."""
_SHORT: Final = re.compile(rb"(?=.*[A-Za-z]{3})[\w .'\"/:=-]{3,32}")
SPEAKS: Final = 1_200
"""Bytes at either end of a line that are classified; the middle of a longer line is ignored."""


def _compile_patterns() -> tuple[Any, tuple[int, ...]]:
    options = cast("Any", re2).Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    pattern_set = cast("Any", re2).Set.SearchSet(options)
    for _, pattern in _PATTERNS:
        pattern_set.Add(pattern)
    pattern_set.Compile()
    flags = tuple(flags | 1 << (FLAG_BITS + nth) for nth, (flags, _) in enumerate(_PATTERNS))
    return pattern_set._set.Match, flags  # noqa: SLF001 - the wrapper copies every text


_MATCH, _FLAGS = _compile_patterns()
_ANY: Final = BlockPattern("|".join(f"(?:{pattern})" for flags, pattern in _PATTERNS if flags not in {BENIGN, PASSED}))
_BY_NUMBER, _SURELY = (  # `404` and `502` are failures, but only `502` is a sure one
    BlockPattern("|".join(f"(?:{each})" for flags, some in _COUNTED.items() if flags & least == least for each in some))
    for least in (0, SURE)
)
_MAY_COUNT: Final = BlockPattern(
    r"fail|error|broken|crashed|\b(?:exit\w*|return(?:ed)?|terminated|finished|status|code|rc|http)\b|\"  |(?-i:GET|POST|PUT|PATCH|DELETE|HEAD) ",
    ignore_case=True,
)
"""Matches all lines, with their digits removed, that a number may make a failure."""
DIGITS: Final = b"0123456789"
_FAILING: Final = b"\0"
"""Suffix of the shape of a line whose number makes it a failure; doubled if the number makes it a sure failure."""


def shapes_of(text: bytes, drop: bytes = DIGITS) -> list[bytes]:
    """Returns the shape of each line of `text`: the line without the bytes in `drop`.

    Lines that differ only in numbers have the same shape, unless the number makes one of them a failure.
    """
    shapes = text.translate(None, drop).split(b"\n")
    if drop != DIGITS or _MAY_COUNT.find(b"\n".join({*shapes})) is not None:
        rows = _BY_NUMBER.rows(text)
        lines = text.split(b"\n") if rows else []
        sure = _SURELY.rows(b"\n".join([lines[row] for row in rows]))
        for row in (*rows, *[rows[nth] for nth in sure]):
            shapes[row] += _FAILING
    return shapes


def speaking(block: bytes, most: float = inf) -> list[int]:
    """Returns the indices of the first `most` lines of `block` that state anything.

    Runs in C at 200 to 700 MB/s if few lines match; `classify` tells what such a line states.
    """
    return _ANY.rows(block, most)


def stating(line: bytes) -> bytes:
    """Returns the part of a line that is classified: the whole line, or the two ends of a long one."""
    return line if len(line) <= 2 * SPEAKS else line[:SPEAKS] + b" " + line[-SPEAKS:]


def classify(line: bytes) -> int:
    """Returns the flags of what a line states, and in higher bits the patterns that it matches; 0 for most lines."""
    flags = 0
    for number in cast("list[int]", _MATCH(stating(line))):
        flags |= _FLAGS[number]
    return BENIGN | PASSED if flags & PASSED else flags


def words_of(line: bytes, level: int) -> bytes:
    """Returns the words that make a line a statement of a class (SURE, STRONG or WARNING).

    Empty if there are none, and, except for SURE, if they are too long to be searched for.
    """
    match = _STATEMENT_WORDS[level].find(line)
    words = b"" if match is None else line[match[0] : match[1]].strip(b" \t:=")
    return words if level == SURE or _SHORT.fullmatch(words) else b""


def level_of(line: bytes) -> int:
    """Returns 1 for a sure failure, 2 if something else went wrong, 3 for a verdict, and 0 for all other lines."""
    flags = classify(line)
    if flags & BENIGN and not flags & SURE:
        return 0
    if flags & SURE:
        return 1
    return 2 if flags & STRONG else 3 if flags & (VERDICT | SUMMARY) else 0
