"""What a card names of an outline: the largest parts, and names alone where signatures do not fit."""

import pytest

from coatcheck.core.outline.section_names import match_titles, without_arguments
from coatcheck.core.outline.summary import summary
from outline.test_landmarks import found

LONG = "aLongParameter: SomeType, another_of_them: SomeOtherType"
DEFINED: dict[str, tuple[str, str]] = {
    "x.py": ("def {name}({long}):\n    pass\n", "def _{name}({long}):\n    a\n    b\n"),
    "x.go": ("func {Name}({long}) {{\n}}\n", "func {name}({long}) {{\n\ta\n\tb\n}}\n"),
    "x.rs": ("pub fn {name}({long}) {{\n}}\n", "fn {name}({long}) {{\n    a\n    b\n}}\n"),
    "x.ts": ("export const {name}: {long} = 5\n", "const {name} = ({long}) => {{\n  a\n  b\n}}\n"),
    "x.js": ("exports.{name} = ({long}) => {{\n}}\n", "function {name}({long}) {{\n  a\n  b\n}}\n"),
    "x.c": ("int {name}({long}) {{\n}}\n", "static int {name}({long}) {{\n  a;\n  b;\n}}\n"),
    "x.pl": ("sub {name} {{ # {long}\n}}\n", "sub _{name} {{ # {long}\n  a\n  b\n}}\n"),
    "x.rb": ("def {name}({long})\nend\n", "def _{name}({long})\n  a\n  b\nend\n"),
    "x.java": ("public interface {name} {{ // {long}\n}}\n", "interface {name} {{ // {long}\n  a\n  b\n}}\n"),
    "x.php": ("public function {name}({long}) {{\n}}\n", "private function {name}({long}) {{\n  a\n}}\n"),
    "x.ex": ("def {name}({long})\nend\n", "defp {name}({long})\n  a\n  b\nend\n"),
}
"""Two forms of a definition in each language, the second larger."""


def _source(name: str, each: int) -> str:
    forms = [(form, n) for n in range(each) for form in reversed(DEFINED[name])]
    return "".join([form.format(name=f"one_{n}", Name=f"One_{n}", long=LONG) for form, n in forms])


@pytest.mark.parametrize("name", [name for name in DEFINED if name != "x.java"])
def test_signatures_that_do_not_fit_are_named_without_arguments_and_found_by_that(name: str) -> None:
    few, many = found(_source(name, 2), name=name), found(_source(name, 8), name=name)
    assert all(entry.title in summary(few, "")[1][0] for entry in few)
    outline = summary(many, "")[1][0]
    titles = [entry.title for entry in many]
    for number, title in enumerate(titles):
        short = without_arguments(title)
        assert short != title
        assert f"{short} " in outline
        assert match_titles(titles, short, names=True) == [number]
    assert LONG not in outline


def test_what_would_be_alike_without_arguments_keeps_them() -> None:
    text = "".join([f"int add(int a, const char *a_parameter_of_number_{n}) {{\n}}\n" for n in range(12)])
    entries = found(text, name="x.c")
    named = summary(entries, "")[1]
    assert sum(entry.title in "".join(named) for entry in entries) == len(entries)


@pytest.mark.parametrize(
    ("title", "short"),
    [
        ("func (c *Desk) find(args []string) (int, error)", "func (c *Desk) find"),
        ("func (d Desk) string() string", "func (d Desk) string"),
        ("pub(crate) fn f(x: u8) -> u8", "pub(crate) fn f"),
        ("pub fn f<T: Fn(u8) -> u8>(f: T)", "pub fn f"),
        ("impl<F: Fn(u8)> X for Y<F>", "impl<F: Fn(u8)> X for Y<F>"),
        ("DESK_API(const char *) desk_name(desk_t *d);", "DESK_API(const char *) desk_name"),
        ("export const r: (a: X) => Y =", "export const r"),
        ("int Desk::read(int)", "int Desk::read"),
        ("def ==(other)", "def ==(other)"),
        ("sub extract # ($text, $rest)", "sub extract"),
        ("class Desk", "class Desk"),
    ],
)
def test_a_title_without_arguments_is_its_beginning_up_to_the_name(title: str, short: str) -> None:
    assert without_arguments(title) == short
    assert title.startswith(short)
