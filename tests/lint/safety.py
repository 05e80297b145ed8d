"""SAFETY comments that send the reader elsewhere: `make lint` refuses those that say only "as above".

Arguments are folders or files; with `--test`, the rule itself is tried.
"""

import re
import sys
from pathlib import Path

# A comment that says where else to look, and nothing of its own in front of it.
ELSEWHERE = re.compile(
    r"//\s*SAFETY:\s*(as (said )?above|as before|see above|ditto|same as above)\b", re.IGNORECASE
)


def refused(text: str) -> list[int]:
    """Lines, from 1, with such a comment."""
    return [number for number, line in enumerate(text.splitlines(), 1) if ELSEWHERE.search(line)]


def sources(places: list[str]) -> list[Path]:
    """Rust files of these places, without what was built."""
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
