"""Headers of C and files of Protocol Buffers, made with what each declares and where."""

import random
from collections.abc import Iterator
from typing import Final

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.made_source import source_case
from facts.says_source import folded


def interfaces(rng: random.Random, count: int) -> Iterator[Case]:
    """Files that declare, named or not, with comments, strings and calls that look like declarations."""
    for number in range(count):
        lines, titles = (_header if number % 2 else _proto)(rng)
        name = "shop.h" if number % 2 else "shop.proto"
        said = rng.choice([DeclaredMetadata(title=f"src/{name}"), DeclaredMetadata(tool_name="read_file")])
        yield source_case("\n".join(lines) + "\n", titles, said)


class _Lines:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.titles: dict[int, str] = {}

    def put(self, text: str, title: str | None = None, *, at: int = 0) -> None:
        """Adds lines; number `at` of them declares something, titled like that, or as it is written."""
        added = text.split("\n")
        if title is not None:
            self.titles[len(self.lines) + at + 1] = title or folded(added[at].rstrip(" \t{:=("))
        self.lines += added


_DECLARATIONS: Final = (
    ("int add_7(int a, int b);\n", "", 0),
    ("extern const char *name_7 (const char *s,\n                         size_t n) THROWS;\n", "", 0),
    ("SHOP_API(struct item *) item_7(void); /* of the store */", "", 0),
    ("static size_t\nsize_7(const void *p);\n", "", 1),
    ("typedef struct item_7 item_7_t;\n", "", 0),
    ("typedef int (*on_7)(void *, int);\n", "", 0),
    ("typedef struct {\n    int x;\n    int (*f)(int);\n} Point_7;\n", "typedef struct Point_7", 0),
    ("struct box_7 {\n    struct item *first;\n};\n", "", 0),
    ("#define MIN_7(a, b) ((a) < (b) ? (a) : (b))\n", "", 0),
    ("static inline int twice_7(int n) {\n    call_7(n);\n    return g(n);\n}\n", "", 0),
    ("/*\nint hidden_7(void);\n */\nDECLARE_SHOP(item_7)\nextern int value_7;\n", None, 0),
    ("// int commented_7(void);\nSHOP_BEGIN\n#if defined(A) && B(C)\n#endif\nstruct item;\n", None, 0),
)
"""Lines of a header, what they declare, and on which of them."""


def _header(rng: random.Random) -> tuple[list[str], dict[int, str]]:
    out = _Lines()
    out.put("/* Of the shop. */\n#ifndef SHOP_H\n#define SHOP_H\n#include <stddef.h>\n#define SHOP_MAX 7\n")
    for n in range(rng.randint(3, 60)):
        text, title, at = rng.choice(_DECLARATIONS)
        out.put(text.replace("_7", f"_{n}"), title and title.replace("_7", f"_{n}"), at=at)
    return out.lines, out.titles


def _proto(rng: random.Random) -> tuple[list[str], dict[int, str]]:
    out = _Lines()
    out.put('// Of the shop.\nsyntax = "proto3";\n\npackage shop.v1;\n')
    for n in range(rng.randint(2, 25)):
        form = rng.randrange(4)
        if form == 0:
            out.put(f"message Item{n} {{", "")
            out.put('  string message = 1 [default = "message No {"];\n  // enum No {')
            out.put("  enum Sort {\n    SORT_NONE = 0;\n  }", "")
            out.put("  oneof either {\n    string a = 2;\n  }\n}\n", "")
        elif form == 1:
            out.put(f"service Shop{n} {{", "")
            out.put(f"  rpc Get{n}(GetRequest) returns (stream Item);", "")
            out.put("  rpc Put(Item) returns (Item) {", "")
            out.put('    option (http) = { put: "/v1/{name=items/*}" };\n  }\n}\n')
        elif form == 2:
            out.put(f"enum Colour{n} {{\n  RED = 0;\n  message = 1;\n}}\n", "")
        else:
            out.put(f"/*\nmessage Hidden{n} {{\n}}\n*/\nextend google.protobuf.Options {{\n}}\n", "", at=4)
    return out.lines, out.titles
