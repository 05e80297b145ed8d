"""Scenarios and simulations from Python, beside the command that reads the same."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import numpy
import pandas
import polars
import pyarrow
import unrack

ROOT = pathlib.Path(__file__).parents[2]
STAR = ROOT / "examples" / "star-edm.toml"
SECTIONS = {
    "network": {"topology": {"kind": "star", "nodes": 4}},
    "fabric": {"protocol": "edm"},
    "workload": {"kind": "memory", "messages": 2000, "load": 0.4},
}


def command(*arguments):
    done = subprocess.run(
        [os.environ["UNRACK"], *map(str, arguments)], check=True, capture_output=True, text=True
    )
    return done.stdout


def figures(summary):
    """Returns the figures without those that differ from run to run."""
    return {key: value for key, value in summary.items() if key != "machine"}


class Scenarios(unittest.TestCase):
    def test_a_file_text_and_keywords_make_the_same_scenario(self):
        by_keywords = unrack.Scenario(**SECTIONS, seed=7)
        by_text = unrack.Scenario.from_toml(by_keywords.explain())
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "a.toml")
            file.write_text(by_keywords.explain())
            by_file = unrack.Scenario(file)
            hashes = {one.check()["hash"] for one in (by_keywords, by_text, by_file)}
        self.assertEqual(len(hashes), 1)
        self.assertEqual(by_keywords.check()["nodes"], 4)

    def test_values_are_replaced_as_the_command_replaces_them(self):
        base = unrack.Scenario(STAR)
        ways = [
            base.replace({"fabric.protocol": "cxl", "workload.load": 0.25}),
            base.replace(fabric={"protocol": "cxl"}, workload={"load": numpy.float64(0.25)}),
            unrack.Scenario(STAR, fabric={"protocol": "cxl"}, workload={"load": 0.25}),
        ]
        printed = command(
            "scenario", "explain", STAR, "--set", "fabric.protocol=cxl", "--set", "workload.load=0.25"
        )
        for way in ways:
            self.assertEqual(way.explain(), printed.replace("--set", "--set"))
        self.assertNotEqual(base.explain(), printed)

    def test_errors_are_those_of_the_command(self):
        with self.assertRaises(unrack.Refused) as refused:
            unrack.Scenario(STAR).replace({"workload.loat": 1}).check()
        done = subprocess.run(
            [os.environ["UNRACK"], "scenario", "check", str(STAR), "--set", "workload.loat=1"],
            check=False,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 2)
        self.assertEqual(f"unrack: {refused.exception}".strip(), done.stderr.strip())
        self.assertIsInstance(refused.exception, ValueError)
        with self.assertRaises(unrack.Refused):
            unrack.Scenario(ROOT / "absent.toml").check()
        with self.assertRaises(TypeError):
            unrack.Scenario(workload={"kind": object()})

    def test_text_that_looks_like_something_else_stays_text(self):
        for text in ["true", "1e3", "inf", "2024-01-01", "a,b", 'a"b', "", "x = 1", "0x10"]:
            with self.assertRaises(unrack.Refused) as refused:
                unrack.Scenario(STAR).replace({"workload.load": text}).check()
            self.assertNotIn("write KEY=VALUE", str(refused.exception), text)
            self.assertIn("workload.load", str(refused.exception), text)


class Simulations(unittest.TestCase):
    def test_figures_and_messages_are_those_of_the_command(self):
        run = unrack.simulate(unrack.Scenario(**SECTIONS))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "a.toml")
            file.write_text(unrack.Scenario(**SECTIONS).explain())
            printed = json.loads(command("sim", file, "--json", "--out", pathlib.Path(folder, "run")))
            written = polars.read_parquet(pathlib.Path(folder, "run", "messages.parquet"))
        self.assertEqual(figures(run.summary), figures(printed))
        self.assertTrue(written.equals(run.messages.to_polars()))
        self.assertIsNone(run.ports)

    def test_tables_convert_and_agree_in_every_library(self):
        run = unrack.simulate(unrack.Scenario(**SECTIONS), links="10us")
        for table in (run.messages, run.ports):
            frame, arrow, rows = table.to_polars(), table.to_arrow(), table.to_pandas()
            self.assertIsInstance(arrow, pyarrow.Table)
            self.assertIsInstance(rows, pandas.DataFrame)
            self.assertEqual([len(frame), arrow.num_rows, len(rows)], [len(table)] * 3)
            self.assertEqual([frame.columns, arrow.column_names, list(rows.columns)], [table.columns] * 3)
            self.assertTrue(polars.from_arrow(arrow).equals(frame))
        busy = run.ports.to_polars()["payload_bytes"].sum()
        # Each payload crosses two links of a star.
        self.assertGreaterEqual(busy, 2 * run.messages.to_polars()["bytes"].sum())

    def test_a_table_outlives_what_made_it(self):
        messages = unrack.simulate(unrack.Scenario(**SECTIONS)).messages
        array = pyarrow.table(messages).column("bytes")
        total = polars.DataFrame(messages)["bytes"].sum()
        del messages
        self.assertEqual(pyarrow.compute.sum(array).as_py(), total)

    def test_threads_change_nothing(self):
        # Threads meet for each half of a microsecond that is simulated: where other work has the cores, that takes long.
        scenario = unrack.Scenario(ROOT / "examples" / "leaf-spine-dctcp.toml").replace(
            {"workload.messages": 300}
        )
        one, two = (unrack.simulate(scenario, threads=threads) for threads in (1, 2))
        self.assertEqual(figures(one.summary), figures(two.summary))
        with self.assertRaises(unrack.Refused):
            unrack.simulate(scenario, threads=2, links="1us")

    def test_the_saved_folder_is_that_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = pathlib.Path(folder, "ours"), pathlib.Path(folder, "theirs")
            unrack.simulate(unrack.Scenario(STAR, workload={"messages": 500})).save(ours)
            command("sim", STAR, "--set", "workload.messages=500", "--out", theirs)
            for name in ("messages.parquet", "completions.parquet", "scenario.toml"):
                self.assertEqual((ours / name).read_bytes(), (theirs / name).read_bytes(), name)
            self.assertIn("noise: the results are the same", command("diff", ours, theirs))
            with self.assertRaises(unrack.Refused):
                unrack.simulate(unrack.Scenario(**SECTIONS)).save(ours)

    def test_the_interpreter_lock_is_released(self):
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            before = counted[0]
            unrack.simulate(unrack.Scenario(**SECTIONS).replace({"workload.messages": 50_000}))
            self.assertGreater(counted[0], before + 100)
        finally:
            stop.set()
            thread.join()

    def test_ctrl_c_ends_a_long_run(self):
        for threads, scenario in ((1, STAR), (2, ROOT / "examples" / "leaf-spine-dctcp.toml")):
            program = f"""
import unrack
scenario = unrack.Scenario({str(scenario)!r}).replace({{"workload.messages": 20_000_000}})
print("begins", flush=True)
try:
    unrack.simulate(scenario, threads={threads})
except KeyboardInterrupt:
    print("ended", flush=True)
"""
            import sys

            child = subprocess.Popen(
                [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            self.assertEqual(child.stdout.readline(), "begins\n")
            time.sleep(1)
            child.send_signal(signal.SIGINT)
            out, said = child.communicate(timeout=60)
            self.assertEqual((out, child.returncode), ("ended\n", 0), said)
            self.assertEqual(said, "", threads)

    def test_pictures_for_notebooks(self):
        run = unrack.simulate(unrack.Scenario(**SECTIONS))
        shown = run._repr_html_()
        self.assertIn("data:image/svg+xml;base64,", shown)
        self.assertIn("<svg", unrack.Scenario(**SECTIONS)._repr_html_())


class OwnMessages(unittest.TestCase):
    def test_arrays_generators_and_single_values(self):
        import itertools

        rng = numpy.random.default_rng(7)
        messages = unrack.Messages(
            src=itertools.cycle(range(3)),
            dst=3,
            bytes=rng.choice([64, 4096], 300),
            gaps_ns=rng.exponential(500, 300),
            kind="flow",
        )
        self.assertEqual(len(messages), 300)
        run = unrack.simulate(messages.on(unrack.Scenario(**SECTIONS)))
        table = run.messages.to_polars()
        self.assertEqual((run.summary["messages"], run.summary["completed"]), (300, 300))
        self.assertEqual(sorted(table["src"].unique()), [0, 1, 2])
        self.assertEqual(table["bytes"].sum(), sum(row[2] for row in messages._rows))
        self.assertEqual(table["submitted_ps"].to_list(), [row[3] for row in messages._rows])

    def test_what_is_no_list_of_messages_is_refused(self):
        good = {"src": [0], "dst": [1], "bytes": [64], "start_ns": [0]}
        unrack.Messages(**good)
        for wrong in (
            {"src": [-1]},
            {"bytes": ["x"]},
            {"start_ns": None},
            {"gaps_ns": [1]},
            {"kind": "post"},
            {"src": []},
            {"start_ns": [float("nan")]},
        ):
            with self.assertRaises(unrack.Refused, msg=wrong):
                unrack.Messages(**{**good, **wrong})
        with self.assertRaises(unrack.Refused):
            unrack.Messages(src=0, dst=1, bytes=64, gaps_ns=5)


if __name__ == "__main__":
    unittest.main()
