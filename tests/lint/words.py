"""Checks documentation and the names of public types: `make lint` holds every crate to these limits.

Counts, in Rust sources: public functions without documentation, files without a module comment, and names of types, public or private,
that several crates use. With `--list`, prints each place instead; with `--by-crate`, a table; with `--test`, tries the rules themselves. Other arguments
are folders or files.
"""

import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

MOST_UNDOCUMENTED = 0.10

# Names that every crate may give to a type, because each reader expects them there: the roles of a type in its module.
IDIOM = frozenset(
    [
        "Args",
        "Builder",
        "Cli",
        "Client",
        "Config",
        "Connection",
        "Error",
        "Event",
        "Frame",
        "Handler",
        "Header",
        "Hello",
        "Iter",
        "Kind",
        "Listener",
        "Malformed",
        "Options",
        "Packet",
        "Params",
        "Reader",
        "Receiver",
        "Reply",
        "Request",
        "Result",
        "Row",
        "Sender",
        "Server",
        "Session",
        "State",
        "Stats",
        "Summary",
        "Verb",
        "Welcome",
        "Worker",
        "Writer",
    ]
)
# Terms of the field that several crates use for the same concept, such as a node of a network. At most MOST_TERMS.
TERMS = frozenset(
    [
        "Block",
        "Body",
        "Buffer",
        "Cache",
        "Call",
        "Channel",
        "Core",
        "Device",
        "Endpoint",
        "Entry",
        "Flow",
        "Guard",
        "Host",
        "Key",
        "Line",
        "Link",
        "Lock",
        "Memory",
        "Message",
        "Node",
        "Page",
        "Parser",
        "Port",
        "Program",
        "Queue",
        "Rack",
        "Ring",
        "Scheduler",
        "Segment",
        "Slot",
        "Socket",
        "Source",
        "Step",
        "Store",
        "Stream",
        "Table",
        "Thread",
        "Timer",
        "Transfer",
        "Value",
    ]
)
MOST_TERMS = 40

DOC = re.compile(r"^\s*//([/!])(?!/)\s?(.*)$")
FUNCTION = re.compile(
    r"^\s*pub(?:\([a-z: ]+\))? (?:const )?(?:async )?(?:unsafe )?(?:extern \"C\" )?fn (\w+)"
)
TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|union|trait|type) (\w+)")
ATTRIBUTE = re.compile(r"^\s*#!?\[")


@dataclass
class Found:
    """Counts of one file or of all files."""

    functions: int = 0
    files: int = 0
    undocumented: list[str] = field(default_factory=list)
    without_module: list[str] = field(default_factory=list)
    types: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.functions += other.functions
        self.files += other.files
        self.undocumented += other.undocumented
        self.without_module += other.without_module
        self.types += other.types


def read(text: str, name: str, is_test: bool = False) -> Found:
    """Counts one file."""
    found = Found(files=1)
    lines = text.splitlines()
    if not any(line.lstrip().startswith("//!") for line in lines[:40]):
        found.without_module.append(f"{name}:1: no comment says what the file holds")
    documented = False
    for number, line in enumerate(lines, 1):
        if line.startswith(("#[cfg(test)]", "mod tests {")):
            is_test = True
        if DOC.match(line):
            documented = True
            continue
        function = FUNCTION.match(line)
        if function and not is_test:
            found.functions += 1
            if not documented:
                found.undocumented.append(f"{name}:{number}: pub fn {function.group(1)}")
        kind = TYPE.match(line)
        if kind and not is_test:
            found.types.append((kind.group(1), name))
        if not ATTRIBUTE.match(line) and not (
            documented and line.startswith((" ", "\t", ")")) and not function
        ):
            documented = False
        if function or line.strip() in ("", "}"):
            documented = False
    return found


def crate_of(name: str) -> str:
    """Returns the folder of the crate that a file belongs to."""
    parts = Path(name).parts
    return "/".join(parts[: parts.index("crates") + 3]) if "crates" in parts else parts[0]


def shared_types(types: list[tuple[str, str]]) -> list[str]:
    """Types of one name in several crates, except those of IDIOM and TERMS."""
    crates = defaultdict(set)
    for kind, name in types:
        crates[kind].add(crate_of(name))
    return [
        f"{kind}: {', '.join(sorted(of))}"
        for kind, of in sorted(crates.items())
        if len(of) > 1 and kind not in IDIOM and kind not in TERMS
    ]


def sources(places: list[str]) -> list[Path]:
    """Returns the Rust files in these folders or files, without generated files of a build."""
    found = []
    for place in map(Path, places):
        found += [place] if place.is_file() else sorted(place.rglob("*.rs"))
    return [path for path in found if "target" not in path.parts]


def try_rules() -> None:
    text = "//! A module.\n\n/// In all.\n/// Second line.\npub fn one() {}\n\npub fn two() {}\n\n/// A type.\npub struct Three;\n"
    found = read(text, "crates/g/a/src/lib.rs")
    assert (found.functions, len(found.undocumented)) == (2, 1), found
    assert not found.without_module
    assert read("struct Four;\n", "b.rs").without_module
    attributes = "//! M.\n/// A function.\n#[must_use]\n#[allow(\n    unused\n)]\npub fn five() {}\n"
    assert not read(attributes, "c.rs").undocumented
    assert shared_types(
        [("Lane", "crates/g/a/x.rs"), ("Lane", "crates/g/b/y.rs"), ("Error", "crates/g/a/x.rs")]
    ) == ["Lane: crates/g/a, crates/g/b"]
    assert len(TERMS) <= MOST_TERMS, len(TERMS)
    private = read("//! M.\nstruct Six;\npub(crate) enum Seven {}\nmod tests {\nstruct Eight;\n", "d.rs")
    assert [kind for kind, _ in private.types] == ["Six", "Seven"]


def main(arguments: list[str]) -> int:
    flags = {a for a in arguments if a.startswith("--")}
    places = [a for a in arguments if not a.startswith("--")]
    if "--test" in flags:
        try_rules()
        return 0
    found = defaultdict(Found)
    for path in sources(places):
        name = str(path)
        found[crate_of(name)].add(read(path.read_text(encoding="utf-8"), name, "tests" in path.parts))
    every = Found()
    for part in found.values():
        every.add(part)
    if "--list" in flags:
        print("\n".join(every.undocumented + every.without_module + shared_types(every.types)))
        return 0
    if "--by-crate" in flags:
        for crate, part in sorted(found.items()):
            print(
                f"{crate:32} {len(part.undocumented):4} of {part.functions:4} functions, {len(part.without_module):3} files"
            )
    return report(every)


def report(every: Found) -> int:
    """Prints the violations of the limits. Returns 1 if there are any, otherwise 0."""
    beyond = []
    if len(every.undocumented) > MOST_UNDOCUMENTED * every.functions:
        beyond.append(
            f"{len(every.undocumented)} of {every.functions} public functions have no documentation"
        )
    beyond += every.without_module
    beyond += [f"types of one name in several crates: {kind}" for kind in shared_types(every.types)]
    for line in beyond:
        print(f"words: {line}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
