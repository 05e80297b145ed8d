"""Finds SAFETY comments that only refer to another place: `make lint` rejects those that consist only of "as above".

Arguments are folders or files; `--test` tests the rule itself.
"""

import re
import sys
from pathlib import Path

# A comment that only names another place, without a reason before it.
ELSEWHERE = re.compile(
    r"//\s*SAFETY:\s*(as (said )?above|as before|see above|ditto|same as above)\b", re.IGNORECASE
)


def refused(text: str) -> list[int]:
    """Returns the numbers of the lines with such a comment; the first line is 1."""
    return [number for number, line in enumerate(text.splitlines(), 1) if ELSEWHERE.search(line)]


def sources(places: list[str]) -> list[Path]:
    """Returns the Rust files in these folders or files, without generated files of a build."""
    found = []
    for place in map(Path, places):
        found += [place] if place.is_file() else sorted(place.rglob("*.rs"))
    return [path for path in found if "target" not in path.parts]


def try_rule() -> None:
    text = "// SAFETY: as above.\n// SAFETY: the page is ours.\n  // SAFETY: as said above; aligned.\n// as above\n"
    assert refused(text) == [1, 3], refused(text)


def main(arguments: list[str]) -> int:
    if arguments == ["--test"]:
        try_rule()
        return 0
    count = 0
    for path in sources(arguments):
        for number in refused(path.read_text(encoding="utf-8")):
            print(f"{path}:{number}: say what makes this block sound, not where it was said", file=sys.stderr)
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
