"""Every part of a scenario that a page shows is accepted by the command, at the place that the page names. Needs the command
(UNRACK)."""

import os
import re
import subprocess
import tempfile
import textwrap
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md"))
# Blocks that are no scenarios of simulations: racks of virtual machines, and files of studies.
OTHER_BLOCKS = ("[device]", "[[grid]]", "[[figure]]", "[figure.cause]", "[[break]]")
# Words that are no keys of scenarios: the contents of a file with sizes, keys with names for values, keys of studies, and a key
# that needs the cycle of its links beside it.
OTHER_SPANS = ("points = ", "between = ", "tolerance = ", "wire = ")
# Header of a table whose first column has values of a key, and that key.
COLUMNS = {
    "`topology`": "network.topology",
    "`size`": "workload.size",
    "`pattern`": "workload.pattern",
    "`arrivals` of each sender": "workload.arrivals",
    "`operation`": "workload.operation",
    "`policy`": "workload.policy",
    "`kind` of a workload": "workload.kind",
    "`fabric.connections`": "fabric.connections",
}
# Table that a key without a dot is in, by page.
TABLES = {"traffic.md": "workload", "protocols.md": "fabric", "studies.md": "host", "network.md": "network"}

FLOWS = 'kind = "flows", size = "64B", load = 0.5, messages = 10'
MEMORY = 'kind = "memory", load = 0.5, messages = 10, blades = { compute = 4, memory = 4, disk = 4 }'
COLLECTIVE = 'kind = "collective", operation = "all-gather", size = "1MB", servers = 2'
JOBS = 'kind = "jobs", jobs = [{ hosts = 4, pagerank = { scale = 8, iterations = 1 } }]'
STAR = 'kind = "star", nodes = 16'
SPINE = 'kind = "leaf-spine", racks = 4, hosts_per_rack = 32, spines = 4'
TORUS = 'kind = "torus", shape = [4, 4]'
DRACK = 'kind = "drack", racks = 4, hosts_per_rack = 4'
BASES = [
    (topology, protocol, workload, host)
    for topology, protocol, host in [
        (STAR, "tcp", ""),
        (SPINE, "tcp", ""),
        (SPINE, "ideal", ""),
        (TORUS, "r2c2", ""),
        (STAR, "edm", ""),
        (STAR, "cxl", ""),
        (STAR, "fastpass", ""),
        (STAR, "pfc-dcqcn", ""),
        (DRACK, "mptcp", ""),
        (DRACK, "tcp", "[host]\n"),
    ]
    for workload in (FLOWS, MEMORY, COLLECTIVE.replace(", servers = 2", ""), COLLECTIVE, JOBS)
]


def base(topology, protocol, workload, host):
    link = 'link = { rate = "100Gbps", propagation = "100ns" }\nswitch = { buffer = "1MiB" }\n'
    return (
        f"[network]\ntopology = {{ {topology} }}\n{link}"
        f'[fabric]\nprotocol = "{protocol}"\n[workload]\n' + workload_table(workload) + host
    )


def workload_table(workload):
    """Returns keys of a table in one line each."""
    return lines(tomllib.loads(f"of = {{ {workload} }}")["of"])


def lines(table):
    return "".join(f"{key} = {written(value)}\n" for key, value in table.items())


def written(value):
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{key} = {written(of)}" for key, of in value.items()) + " }"
        case _:
            return str(value)


def blocks(text):
    """Yields the blocks of a page that are TOML: fenced as such, or indented and with a table's header first."""
    yield from re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE):
        if textwrap.dedent(block).strip().startswith("["):
            yield textwrap.dedent(block)


def rows(text):
    """Yields values of keys in the first columns of tables, as fragments."""
    key = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            key = None
        elif cells[0] in COLUMNS:
            key = COLUMNS[cells[0]]
        elif key and (spans := re.fullmatch(r"`([^`]+)`(?:, `([^`]+)`)*", cells[0])):
            yield from (f"{key} = {span}" for span in re.findall(r"`([^`]+)`", spans[0]))


def spans(page, text):
    """Yields keys with values within the lines of a page, as fragments."""
    for span in re.findall(
        r"`(\[*[a-z_]+(?:\.[a-z_]+)*\]* = [^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    ):
        if not span.startswith(OTHER_SPANS):
            table = TABLES.get(page.name)
            yield span if "." in span.split(" = ")[0] or table is None else f"{table}.{span}"


def fragments(page):
    text = page.read_text()
    yield from (block for block in blocks(text) if not any(other in block for other in OTHER_BLOCKS))
    if "decisions" not in page.parts:
        yield from rows(text) if page.name in TABLES else ()
        yield from spans(page, text)


class Fragments(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="unrack-fragments-")))
        (self.folder / "cables.txt").write_text("0 1\n1 2 40Gbps\n2 3\n3 0 5Gbps 300ns\n")
        (self.folder / "sizes.toml").write_text("points = [[0, 0], [100, 0.5], [2000, 1]]\n")
        (self.folder / "flows.csv").write_text("src,dst,bytes,start_ns\n0,1,64,0\n")
        self.order = list(range(len(BASES)))
        for number, of in enumerate(BASES):
            (self.folder / f"base-{number}.toml").write_text(base(*of))

    def refusal(self, fragment):
        """Returns why no base takes the fragment: the shortest of the errors. None if one does."""
        why = []
        for number in self.order:
            file = self.folder / "fragment.toml"
            file.write_text(f'extends = "base-{number}.toml"\n{fragment}\n')
            done = subprocess.run(
                [os.path.abspath(os.environ["UNRACK"]), "scenario", "check", str(file)],
                check=False,
                capture_output=True,
                text=True,
                timeout=60,
            )
            if done.returncode == 0:
                # The next fragment is likely to be about the same.
                self.order.sort(key=lambda other: other != number)
                return None
            why.append(done.stderr)
        return min(why, key=len)

    def test_every_fragment_of_a_page_is_accepted(self):
        tried = 0
        for page in PAGES:
            for fragment in fragments(page):
                tried += 1
                with self.subTest(page=page.name, fragment=fragment):
                    self.assertIsNone(self.refusal(fragment))
        # The pages on networks and traffic alone have more.
        self.assertGreater(tried, 30)

    def test_what_a_page_may_not_show_is_refused(self):
        wrong = [
            'workload.organization = "segregated"',
            'network.topology = { kind = "ring" }',
            "[workload]\nlod = 1",
        ]
        for fragment in wrong:
            self.assertIsNotNone(self.refusal(fragment), fragment)


if __name__ == "__main__":
    unittest.main()
