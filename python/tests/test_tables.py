"""Every table that any command writes, read by polars, pandas and duckdb. Needs the command (UNRACK)."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.parquet

EXAMPLES = Path(__file__).parents[2] / "examples"

# Columns of each kind of table. A sweep's keys come before these.
TRANSFER = {"kind": "text", "bytes": "whole"}
COLUMNS = {
    "trace": {"t_ns": "whole", "thread": "whole", "page": "whole"}
    | TRANSFER
    | {"wait_ns": "whole", "overhead_ns": "whole"},
    "completions": TRANSFER | {"completion_ps": "whole", "ideal_ps": "whole"},
    "messages": {"id": "whole", "src": "whole", "dst": "whole"}
    | TRANSFER
    | dict.fromkeys(["submitted_ps", "completed_ps", "unloaded_ps", "ideal_ps"], "whole")
    | {"slowdown": "real", "retransmissions": "whole", "drops": "whole", "trims": "whole"},
    "ports": {
        "from_ps": "whole",
        "kind": "text",
        "number": "whole",
        "busy_ps": "whole",
        "utilization": "real",
    }
    | dict.fromkeys(["packets", "wire_bytes", "payload_bytes"], "whole")
    | {"queue_mean_bytes": "real", "queue_max_bytes": "whole"},
    "line-heat": dict.fromkeys(["epoch", "page", "misses", "write_backs"], "whole"),
    "sweep": {"scenario_hash": "text", "fabric": "text"}
    | dict.fromkeys(["seed", "nodes", "messages", "completed"], "whole")
    | dict.fromkeys(["dropped_packets", "trimmed_packets"], "whole")
    | dict.fromkeys([f"slowdown_{of}" for of in ["mean", "p50", "p99", "p999", "max"]], "real")
    | dict.fromkeys(
        ["completion_mean_ns", "completion_p99_ns", "throughput_gbps", "queue_mean_bytes"], "real"
    )
    | {"queue_p99_bytes": "whole", "queue_max_bytes": "whole", "sim_time_ns": "real"}
    | {"events": "whole", "packet_hops": "whole"},
}
# Keys of the two sweeps below: one value of each kind, and of several kinds.
KEYS = {
    "sweep/sweep.parquet": {
        "fabric.protocol": "text",
        "workload.load": "real",
        "workload.messages": "whole",
        "network.link.propagation_ns": "real",
        "network.link.rate_bps": "whole",
        "workload.size_bytes": "whole",
        "network.switch.cut_through": "truth",
    },
    "mixed/sweep.parquet": {"workload.size": "text"},
}

# What each file below is; `run.parquet` and `ports.parquet` are named by an option.
TABLES = {
    "sim/messages.parquet": "messages",
    "sim/completions.parquet": "completions",
    "ports.parquet": "ports",
    "sweep/sweep.parquet": "sweep",
    "mixed/sweep.parquet": "sweep",
    "run.parquet": "trace",
    "compare/trace.parquet": "trace",
    "compare/completions-edm.parquet": "completions",
    "compare/completions-dctcp.parquet": "completions",
    "lines/heat.parquet": "line-heat",
    "live/messages.parquet": "messages",
    "live/completions.parquet": "completions",
}
# Verbs that write tables, and those that write none; options that name a table's file.
WRITERS = {"sim", "sweep", "run", "compare", "rack run"}
OTHERS = {
    "docs",
    "doctor",
    "man",
    "schema",
    "keys",
    "lines",
    "map",
    "memory",
    "pool",
    "rack",
    "rpc",
    "sockets",
    "phy",
    "study",
    "swap",
    "scenario",
    "diff",
    "report",
    "completions",
}
OPTIONS = {"run --capture", "sim --ports"}
# Exit status where a machine cannot take a program's memory away.
LACKING = 3

PROGRAM = (
    "import time; d = bytearray(8 << 20); d[::4096] = bytes(2048); d[::4096] = bytes(2048); time.sleep(0.1)"
)


def unrack(*words, folder=None):
    command = [os.path.abspath(os.environ["UNRACK"]), *map(str, words)]
    env = os.environ | ({"UNRACK_PROC": str(folder / "proc")} if folder else {})
    return subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True, timeout=120, env=env
    )


def make_proc(folder):
    """Makes a /proc of a machine that seems idle: of a busy one, `compare` withholds what tables would hold."""
    (folder / "self").mkdir(parents=True)
    (folder / "stat").write_text("cpu0 1 0 1 9 0 0 0 0 0 0\ncpu1 1 0 1 9 0 0 0 0 0 0\n")
    (folder / "loadavg").write_text("0.00 0.00 0.00 1/99 7\n")


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="unrack-tables-")))
        make_proc(cls.folder / "proc")
        star, torus = EXAMPLES / "star-edm.toml", EXAMPLES / "torus-4x4.toml"
        few = ["--set", "workload.messages=300"]
        cls.done("sim", star, *few, "--out", "sim", "--ports", "ports.parquet")
        cls.done("sim", star, *few, "--out", "empty", "--set", "fabric.protocol=ideal")
        keys = ["fabric.protocol=ideal,dctcp", "workload.load=0.2,50%", "workload.messages=200,300"]
        keys += [
            "network.link.propagation=0,10ns",
            "network.link.rate=100Gbps,400Gbps",
            "workload.size=64B,1KiB",
        ]
        keys += ["network.switch.cut_through=true,false"]
        cls.done(
            "sweep",
            star,
            *[word for key in keys for word in ("--set", key)],
            "--seeds",
            "1..2",
            "--out",
            "sweep",
        )
        sizes = 'workload.size=64B,{ cdf = "websearch" }'
        mixed = [EXAMPLES / "leaf-spine-dctcp.toml", "--set", sizes, "--set", "workload.messages=30"]
        cls.done("sweep", *mixed, "--out", "mixed")
        state = ["--state", cls.folder / "torus"]
        cls.done("rack", "up", torus, *state)
        cls.addClassCleanup(unrack, "rack", "down", *state)
        cls.done("rack", "run", torus, *state, "--set", "workload.messages=20", "--out", "live")
        program = ["--", sys.executable, "-c", PROGRAM]
        cls.done("study", "run", "ddc/table4", "--quick", "--out", "study")
        cls.pages = cls.run_program("run", "--local", "4MiB", "--capture", "run.parquet", *program)
        compare = [
            "compare",
            "--local",
            "50%",
            "--fabric",
            "edm,dctcp",
            "--nodes",
            "4",
            "--transfers",
            "2000",
        ]
        cls.run_program(*compare, "--repeat", "1", "--out", "compare", *program)
        cls.run_program("map", "--local", "50%", "--repeat", "1", "--out", "map", *program)
        cls.lines = cls.run_program(
            "compare", "--access", "lines", "--fabric", "ideal", "--repeat", "1", "--out", "lines", *program
        )

    @classmethod
    def done(cls, *words):
        output = unrack(*words, folder=cls.folder)
        assert output.returncode == 0, f"{words}: {output.stderr}"

    @classmethod
    def run_program(cls, *words):
        """Whether this machine can take a program's memory away."""
        output = unrack(*words, folder=cls.folder)
        assert output.returncode in (0, LACKING), f"{words}: {output.stderr}"
        return output.returncode == 0

    def known(self):
        lacking = () if self.pages else ("run.parquet", "compare/")
        lacking += () if self.lines else ("lines/",)
        return {name: kind for name, kind in TABLES.items() if not name.startswith(lacking)}

    def test_every_table_that_is_written_is_known(self):
        self.assertTrue(
            self.pages, "tables of programs are not checked: this machine cannot take their memory away"
        )
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.parquet")}
        extra = {"empty/messages.parquet", "empty/completions.parquet"}
        self.assertEqual(found - extra, set(self.known()))
        for name, kind in self.known().items():
            metadata = pyarrow.parquet.read_metadata(self.folder / name).metadata
            self.assertEqual(metadata[b"unrack.table"].decode(), kind, name)

    def test_no_verb_or_option_is_forgotten(self):
        verbs = self.verbs("")
        self.assertEqual(set(verbs), ({verb for verb in WRITERS | OTHERS if " " not in verb} | {"help"}))
        options = set()
        for verb in [
            *verbs,
            *(f"rack {verb}" for verb in self.verbs("rack")),
            *(f"study {v}" for v in self.verbs("study")),
        ]:
            text = unrack(*verb.split(), "--help").stdout if "help" not in verb else ""
            described = re.split(r"\n\s+(?=-)", text.split("Options:")[-1].split("Examples:")[0])
            named = [option for option in described if "Parquet" in option or ".parquet" in option]
            options |= {f"{verb} {re.search('--[a-z-]+', option)[0]}" for option in named}
        # The table of a sweep is named in the help of --out.
        self.assertEqual(options - {"sweep --out"}, OPTIONS)

    def verbs(self, of):
        text = unrack(*of.split(), "--help").stdout
        return re.findall(r"^  ([a-z-]+)  ", text.split("Commands:")[1].split("Options:")[0], re.MULTILINE)

    def test_polars_pandas_and_duckdb_read_the_same(self):
        for name, kind in self.known().items():
            with self.subTest(name=name):
                columns = KEYS.get(name, {}) | COLUMNS[kind]
                rows = pyarrow.parquet.read_metadata(self.folder / name).num_rows
                # Flows are no pages: their completions are a table without rows.
                self.assertEqual(rows == 0, name == "live/completions.parquet")
                for read in (by_polars, by_pandas, by_duckdb):
                    self.assertEqual(read(self.folder / name), (rows, columns), read.__name__)

    def test_the_values_of_a_sweep_are_those_that_were_set(self):
        table = polars.read_parquet(self.folder / "sweep/sweep.parquet")
        values = {
            "workload.load": [0.2, 0.5],
            "network.link.propagation_ns": [0.0, 10.0],
            "network.link.rate_bps": [100_000_000_000, 400_000_000_000],
            "workload.size_bytes": [64, 1024],
            "seed": [1, 2],
        }
        for column, expected in values.items():
            self.assertEqual(sorted(table[column].unique()), expected, column)
        grid = [*KEYS["sweep/sweep.parquet"], "seed"]
        self.assertEqual(table.select(grid).unique().height, table.height)


def by_polars(path):
    table = polars.read_parquet(path)

    def of(dtype):
        if dtype in (polars.String, polars.Categorical, polars.Enum):
            return "text"
        return "whole" if dtype.is_integer() else "real" if dtype.is_float() else "truth"

    return table.height, {name: of(dtype) for name, dtype in table.schema.items()}


def by_pandas(path):
    pandas.read_parquet(path)
    # By default whole numbers become floats where one is missing.
    table = pandas.read_parquet(path, dtype_backend="numpy_nullable")
    types = pandas.api.types

    def of(dtype):
        if types.is_bool_dtype(dtype):
            return "truth"
        return "whole" if types.is_integer_dtype(dtype) else "real" if types.is_float_dtype(dtype) else "text"

    return len(table), {name: of(dtype) for name, dtype in table.dtypes.items()}


def by_duckdb(path):
    types = {"DOUBLE": "real", "VARCHAR": "text", "BOOLEAN": "truth"}
    with duckdb.connect() as database:
        columns = database.execute("describe select * from read_parquet(?)", [str(path)]).fetchall()
        rows = database.execute("select count(*) from read_parquet(?)", [str(path)]).fetchone()[0]
    return rows, {name: types.get(of, "whole" if "INT" in of else of) for name, of, *_ in columns}


if __name__ == "__main__":
    unittest.main()
