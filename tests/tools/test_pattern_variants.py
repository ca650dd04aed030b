"""What a pattern can mean when a model has copied it from what it was shown."""

import pytest

from coatcheck.core.grep.matcher import compile_pattern
from coatcheck.tools.values import is_copied, or_plain, other_spellings, quote_text
from tools.agent import Agent

LOG = (
    "[INFO] scanning (3 modules)\n"
    "a | b | c\n"
    "r exit status 1\n"
    "[taskcluster:error] exit status 1\n"
    "[\x1b[1;31mERROR\x1b[m] \x1b[1mBUILD \x1b[01;31m\x1b[KFAILED\x1b[m\x1b[K in 3.5s (core)\n"
    "33%\r66%\r== 3 fetched\n"
) + "filler\n" * 2000


def finds(pattern: str | None, text: str) -> bool:
    assert pattern is not None
    data = text.encode()
    return compile_pattern(pattern, literal=False, ignore_case=True).find(data, 0, len(data)) is not None


@pytest.mark.parametrize("pattern", ["TEST-FAIL | leak", "| a |", "a||b", "|x", "x|", "x| "])
def test_alternatives_in_spaces_are_text(pattern: str) -> None:
    assert is_copied(pattern)


@pytest.mark.parametrize("pattern", ["error|fail", "(a|b)", r"a\|\|b", r"x \| y", "[a|b]", "plain"])
def test_alternatives_of_an_expression_are_not(pattern: str) -> None:
    assert not is_copied(pattern)


@pytest.mark.parametrize("text", ["[main] done (3 ms)", "a.b*c+d?", "x{2}", "$HOME^", "a(b", "a[b", "f(x)|g[y]"])
def test_a_pattern_matches_itself_as_plain_text_whenever_it_is_valid(text: str) -> None:
    assert finds(quote_text(text), f"… {text} …")
    try:
        compile_pattern(text, literal=False, ignore_case=False)
    except Exception:  # noqa: BLE001 - then the search says that it is no expression
        return
    assert finds(or_plain(text), f"… {text} …")


@pytest.mark.parametrize("pattern", ["plain words", r"\[main\] \d+", "a.b"])
def test_what_can_only_mean_one_thing_is_left_alone(pattern: str) -> None:
    assert or_plain(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "line", "said"),
    [
        ("[INFO] scanning (3 modules)", "1:[INFO] scanning (3 modules)", "the only match."),
        ("a | b | c", "2:a | b | c", "The pattern was searched for as plain text."),
        ("[taskcluster:error] exit status 1", "4:[taskcluster:error] exit status 1", "all 2 matches."),
        (
            "[ERROR] BUILD FAILED in 3.5s (core)",
            "5:[ERROR] BUILD FAILED in 3.5s (core)",
            "colours, fields and escapes.",
        ),
        (r"\[error\] build", "5:[ERROR] BUILD FAILED in 3.5s (core)", "colours, fields and escapes."),
        ("^== 3 fetched", "6:[… 8 bytes overwritten …]== 3 fetched", "colours, fields and escapes."),
    ],
    ids=["brackets", "bars", "class", "colours", "expression", "frames"],
)
async def test_a_line_as_it_was_shown_is_found_again(agent: Agent, pattern: str, line: str, said: str) -> None:
    artifact_id = await agent.put(LOG, tool_name="bash")
    answer = await agent.read(artifact_id=artifact_id, pattern=pattern, context=0)
    assert line in answer.body.split("\n")
    assert said in answer.last


@pytest.mark.parametrize(
    ("pattern", "spellings"),
    [
        (r"ERROR\|FATAL", [("ERROR|FATAL", False)]),
        (r"\(a\)", [("(a)", False)]),
        (r"a\+b\{2,3\}", [("a+b{2,3}", False)]),
        (r"\<word\>", [(r"\bword\b", False)]),
        (r"main()\|exit", [(r"main\(\)|exit", False), ("main()|exit", False)]),
        (r"[(\|]\|\\(", [(r"[(\|]|\\\(", False), (r"[(\|]|\\(", False)]),
        ("/fatal/i", [("fatal", True)]),
        (r"/a\/b\|c/g", [(r"a/b\|c", False), ("a/b|c", False)]),
        ("/usr/lib", []),
        ("error|fatal", []),
        (r"\d+\.\d+", []),
        (r"[\|]", []),
    ],
)
def test_patterns_of_grep_and_javascript_are_respelled(pattern: str, spellings: list[tuple[str, bool]]) -> None:
    assert other_spellings(pattern) == spellings


@pytest.mark.parametrize(
    ("pattern", "found", "meant"),
    [
        (r"ERROR\|fetched", 2, "ERROR|fetched"),
        (r"error\|fetched", 2, "error|fetched"),
        (r"\(exit\|core\) status", 2, "(exit|core) status"),
        (r"exit st[a-z]\+", 2, "exit st[a-z]+"),
        (r"\<scanning\>", 1, r"\bscanning\b"),
        ("/EXIT status/i", 2, "EXIT status"),
        ("/exit status/", 2, "exit status"),
    ],
)
async def test_a_pattern_in_another_syntax_is_tried_as_meant(
    agent: Agent, pattern: str, found: int, meant: str
) -> None:
    artifact_id = await agent.put(LOG, tool_name="bash")
    answer = await agent.read(artifact_id=artifact_id, pattern=pattern, context=0)
    assert f"all {found} matches." in answer.last or (found == 1 and "the only match." in answer.last)
    assert f'Nothing matches as written; these match "{meant}"' in answer.last


async def test_a_sign_that_stands_in_the_text_is_matched_as_written(agent: Agent) -> None:
    artifact_id = await agent.put(LOG, tool_name="bash")
    answer = await agent.read(artifact_id=artifact_id, pattern=r"scanning \(3|a \| b", context=0)
    assert "all 2 matches." in answer.last
    assert "as written" not in answer.last


async def test_what_stands_nowhere_is_not_found_in_any_reading(agent: Agent) -> None:
    artifact_id = await agent.put(LOG, tool_name="bash")
    answer = await agent.read(artifact_id=artifact_id, pattern="[WARN] BUILD FAILED (core)")
    assert answer.text.startswith('No match for "[WARN] BUILD FAILED (core)" in ')
    answer = await agent.read(artifact_id=artifact_id, pattern="[] nothing")
    assert (answer.is_error, 'missing ] in "[] nothing".' in answer.text) == (True, True)
