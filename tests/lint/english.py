"""Measures how the English of pages and comments reads; `make lint` holds both to the limits below.

Counts words that mark a private dialect, per 10,000 words, in pages (`*.md`) and in comments of Rust sources. Tests, the changelog and
the results of studies are left out. The counts are only an indicator: connectives that are added without a reason improve the count, but
not the text.

Argument: the root of a checkout. `--worst N` lists the files with most marks instead; `--test` tests the rules themselves.
"""

import re
import subprocess
import sys
from pathlib import Path

CONNECTIVES = "because, therefore, however, for example, note that"
# Patterns by the name of the measure. For the first measure, a higher count is better; for the others, a lower one.
MEASURES = {
    CONNECTIVES: r"\bbecause\b|\btherefore\b|\bhowever\b|\bfor example\b|\be\.g\.|\bnote that\b",
    "tell, told": r"\b(?:tells?|told)\b",
    "of its own, of ours": r"\bof (?:its|their|his|our|ours|one.s) own\b|\bof ours\b",
    "who, whoever without a noun": r"(?:^|[.;:,] )(?:who|whoever)\b",
    "what as a noun": r"(?:^|[.;:,] |\band |\bof |\bis |\bto |\bin )what\b",
    "is said": r"\bis said\b",
    "nobody, nothing as a subject": r"(?:^|[.;:,] )(?:nobody|nothing)\b",
}
GOALS = {
    CONNECTIVES: 20.0,
    "tell, told": 1.0,
    "of its own, of ours": 1.0,
    "who, whoever without a noun": 0.5,
    "what as a noun": 5.0,
    "is said": 0.2,
    "nobody, nothing as a subject": 1.0,
}
LEFT_OUT = re.compile(r"CHANGELOG|/tests?/|studies|docs/results/|CODE_OF_CONDUCT")


def comments(text: str) -> str:
    """Returns the comments of a Rust source, without their slashes."""
    lines = (line.strip() for line in text.split("\n"))
    return " ".join(line.lstrip("/!").strip() for line in lines if line.startswith("//"))


def prose(text: str) -> str:
    """Returns the text of a page without its blocks of code."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def texts(root: Path) -> dict[str, dict[str, str]]:
    """Returns the texts of pages and of comments, by their file."""
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True)
    found: dict[str, dict[str, str]] = {"pages": {}, "comments": {}}
    for name in listed.stdout.splitlines():
        if LEFT_OUT.search(name) or not name.endswith((".rs", ".md")) or not (root / name).exists():
            continue
        text = (root / name).read_text(errors="replace")
        kind, read = ("comments", comments) if name.endswith(".rs") else ("pages", prose)
        found[kind][name] = read(text)
    return found


def rates(text: str) -> dict[str, float]:
    """Returns how often each measure's pattern occurs per 10,000 words of a text."""
    words = max(1, len(re.findall(r"[A-Za-z]+", text)))
    return {
        name: 1e4 * len(re.findall(pattern, text, re.IGNORECASE)) / words
        for name, pattern in MEASURES.items()
    }


def beyond(kind: str, found: dict[str, float]) -> list[str]:
    """Returns the measures that violate their limits."""
    lines = []
    for name, rate in found.items():
        limit = GOALS[name]
        if rate < limit if name == CONNECTIVES else rate > limit:
            than = "at least" if name == CONNECTIVES else "at most"
            lines.append(f"{kind}: {name}: {rate:.1f} in 10,000 words, {than} {limit}")
    return lines


def worst(files: dict[str, str], most: int) -> list[str]:
    """Returns the files with most marks, among those with more than 150 words."""
    ranked = []
    for name, text in files.items():
        if len(re.findall(r"[A-Za-z]+", text)) > 150:
            ranked.append((sum(list(rates(text).values())[1:]), name))
    return [f"{rate:7.0f}  {name}" for rate, name in sorted(ranked, reverse=True)[:most]]


def try_rules() -> None:
    found = rates("It waits, because the lock is held. What is left, who knows. A thing of its own is told.")
    assert all(found[name] > 0 for name in list(MEASURES)[:5]), found
    assert comments("let a = 1; // no\n/// A lock.\n//! Why: because.\n") == "A lock. Why: because."
    assert prose("One.\n```\nwhat\n```\nTwo.") == "One.\n\nTwo."
    assert beyond("pages", dict.fromkeys(MEASURES, 0.0)) == [
        f"pages: {CONNECTIVES}: 0.0 in 10,000 words, at least {GOALS[CONNECTIVES]}"
    ]
    assert len(beyond("pages", dict.fromkeys(MEASURES, 1e3))) == len(MEASURES) - 1


def main(arguments: list[str]) -> int:
    if "--test" in arguments:
        try_rules()
        return 0
    number = int(arguments[arguments.index("--worst") + 1]) if "--worst" in arguments else 0
    lines = []
    for kind, files in texts(Path(arguments[0])).items():
        if number:
            lines += [f"{kind}:", *worst(files, number)]
        else:
            lines += beyond(kind, rates(" ".join(files.values())))
    for line in lines:
        print(line if number else f"english: {line}", file=sys.stdout if number else sys.stderr)
    return 1 if lines and not number else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
