"""Checks the names of tests in docs/faults.md: `make lint` rejects a name that no source contains.

Arguments are the page and the folder of the crates; `--test` tests the rule itself.
"""

import re
import sys
from pathlib import Path

NAME = re.compile(r"`([^`\s]+)`")
# Other attributes and comments may stand between `#[test]` and the function.
TEST = re.compile(r"#\[test\]\s*(?:(?:#\[[^\n]*\]|//[^\n]*)\s*)*fn (\w+)")


def named(page: str) -> list[tuple[int, str]]:
    """Returns the names in the column `test` of the page's tables, each with its line number, which starts at 1."""
    found, in_table = [], False
    for number, line in enumerate(page.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            in_table = False
        elif cells[-1] == "test":
            in_table = True
        elif in_table and not cells[-1].startswith("---"):
            found += [(number, name) for name in NAME.findall(cells[-1]) if is_test(name)]
    return found


def is_test(name: str) -> bool:
    """Returns whether a name is a path, a module or a function. Other names in these cells are commands and options."""
    return name.endswith(".rs") or "/" in name or "::" in name or "_" in name


def is_there(name: str, sources: dict[str, str]) -> bool:
    """Returns whether the sources contain a file, a module or a test of this name. `crates` has the text of each source by path."""
    if name.endswith(".rs"):
        return any(("/" + path).endswith("/" + name) for path in sources)
    if "/" in name:
        return any(path.startswith(name.removeprefix("crates/").rstrip("/") + "/") for path in sources)
    module, _, test = name.rpartition("::")
    parts = module.split("::") if module else []
    within = {path: text for path, text in sources.items() if set(parts) <= set(words(path))}
    if any(has_test(text, test) for text in within.values()):
        return True
    # A module with the name of its crate, such as `pager::pulse`.
    return bool(parts) and any(test in words(path) for path in within)


def words(path: str) -> list[str]:
    return re.split(r"[/.]", path)


def has_test(text: str, name: str) -> bool:
    """Returns whether a text has a test of this name. If the name ends with an ellipsis, a test that begins with it is enough."""
    if name.endswith("…"):
        return any(test.startswith(name[:-1]) for test in TEST.findall(text))
    return name in TEST.findall(text)


def missing(page: str, sources: dict[str, str]) -> list[tuple[int, str]]:
    return [(number, name) for number, name in named(page) if not is_there(name, sources)]


def try_rule() -> None:
    sources = {
        "a/src/one.rs": "#[test]\n// Why.\n#[ignore]\nfn it_works() {}\nfn no_test() {}\n",
        "b/tests/it.rs": "#[test]\nfn it_stands_up() {}\n",
    }
    cells = [
        "`it_works`",
        "a: `one::it_works`",
        "`a::one`",
        "`it_stands_…` (`make soak`)",
        "`b/tests`",
        "`tests/it.rs`",
    ]
    rows = [*cells, "`no_test`", "`it::it_works`, `a::two`", "`it_falls_…`", "`c/tests`", "`src/it.rs`"]
    page = "| fault | test |\n|---|---|\n" + "".join(f"| `some_fault` | {row} |\n" for row in rows)
    page += "\n| default | why |\n|---|---|\n| 1 | `no_table_of_tests` |\n"
    wrong = ["no_test", "it::it_works", "a::two", "it_falls_…", "c/tests", "src/it.rs"]
    assert [name for _, name in missing(page, sources)] == wrong, missing(page, sources)
    assert missing(page, sources)[0][0] == 9, missing(page, sources)


def main(arguments: list[str]) -> int:
    if arguments == ["--test"]:
        try_rule()
        return 0
    page, crates = map(Path, arguments)
    sources = {path.relative_to(crates).as_posix(): path.read_text("utf-8") for path in crates.rglob("*.rs")}
    wrong = missing(page.read_text("utf-8"), sources)
    for number, name in wrong:
        print(f"{page}:{number}: no test, module or file in {crates} is called `{name}`", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
