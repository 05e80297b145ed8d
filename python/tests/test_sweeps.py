"""Sweeps from Python: on this machine, on a cluster of Dask, and with a worker that is killed: one table."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import distributed
import unrack

ROOT = pathlib.Path(__file__).parents[2]
STAR = ROOT / "examples" / "star-edm.toml"
VALUES = {"workload.load": [0.2, 0.5], "fabric.protocol": ["edm", "cxl"]}
SEEDS = range(1, 6)
SET = [
    "--set=workload.messages=2000",
    "--set=workload.load=0.2,0.5",
    "--set=fabric.protocol=edm,cxl",
    "--seeds=1..5",
]


def scenario():
    return unrack.Scenario(STAR, workload={"messages": 2000})


def table(folder):
    return [(folder / name).read_bytes() for name in ("sweep.json", "sweep.parquet")]


@contextlib.contextmanager
def workers(number):
    """A cluster of processes that import what this test does, and its client."""
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    with (
        unittest.mock.patch.dict(os.environ, PYTHONPATH=path),
        distributed.LocalCluster(
            n_workers=number, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


class Sweeps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.above = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.above.name)
        cls.by_command = cls.folder / "command"
        subprocess.run(
            [os.environ["UNRACK"], "sweep", STAR, *SET, "--out", cls.by_command],
            check=True,
            capture_output=True,
        )

    @classmethod
    def tearDownClass(cls):
        cls.above.cleanup()

    def test_the_table_is_that_of_the_command(self):
        out = self.folder / "here"
        found = unrack.sweep(scenario(), VALUES, seeds=SEEDS, out=out, threads=2)
        self.assertEqual(table(out), table(self.by_command))
        self.assertEqual(len(found), 20)
        self.assertIn("workload.load", found.table.columns)
        self.assertIn("svg", found._repr_html_())

    def test_a_scenario_without_a_file(self):
        text = unrack.Scenario.from_toml(scenario().explain())
        found = unrack.sweep(text, VALUES, seeds="1..5")
        ours, theirs = (
            found.summary["points"],
            json.loads((self.by_command / "sweep.json").read_text())["points"],
        )
        self.assertEqual(ours, theirs)

    def test_points_that_cannot_be_run_are_named(self):
        with self.assertRaises(unrack.Refused) as refused:
            unrack.sweep(scenario(), {"workload.load": [0.5, "x"]})
        self.assertIn("workload.load", str(refused.exception))

    def test_a_cluster_and_a_killed_worker_change_nothing(self):
        with workers(4) as (cluster, client):
            out = self.folder / "cluster"
            unrack.sweep(scenario(), VALUES, seeds=SEEDS, out=out, client=client)
            self.assertEqual(table(out), table(self.by_command))

            long = unrack.Scenario(STAR, workload={"messages": 60_000})
            killed, whole = self.folder / "killed", self.folder / "whole"
            stop = threading.Event()
            killer = threading.Thread(target=_kill_one, args=(client, killed / "points", stop))
            killer.start()
            unrack.sweep(long, VALUES, seeds=[1, 2], out=killed, client=client)
            stop.set()
            killer.join()
            unrack.sweep(long, VALUES, seeds=[1, 2], out=whole)
            self.assertEqual(table(killed), table(whole))
            self.assertTrue(_kill_one.done, "a worker was killed on the way")

            by_cluster = self.folder / "by-command"
            done = subprocess.run(
                [os.environ["UNRACK"], "sweep", STAR, *SET]
                + ["--cluster", cluster.scheduler_address, "--out", by_cluster],
                check=False,
                capture_output=True,
                text=True,
                env={**os.environ, "UNRACK_PYTHON": sys.executable},
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(table(by_cluster), table(self.by_command))

    def test_files_go_along(self):
        messages = unrack.Messages(src=[0, 1, 2], dst=3, bytes=[64, 128, 4096], start_ns=[0, 10, 20])
        own = messages.on(unrack.Scenario(STAR))
        with workers(2) as (_, client):
            values = {"fabric.protocol": ["edm", "cxl", "dctcp"]}
            there = unrack.sweep(own, values, client=client)
            here = unrack.sweep(own, values)
            self.assertEqual(there.summary["points"], here.summary["points"])

    def test_no_scheduler_is_said(self):
        with socket.socket() as closed:  # Bound without a listener: connections are refused.
            closed.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
            done = subprocess.run(
                [os.environ["UNRACK"], "sweep", STAR, "--seeds=1..2", "--cluster", address]
                + ["--out", self.folder / "none"],
                check=False,
                capture_output=True,
                text=True,
                env={**os.environ, "UNRACK_PYTHON": sys.executable},
            )
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"no scheduler of Dask answers at {address}", done.stderr)


def _kill_one(client, points, stop):
    """Kills a worker that computes a point, once some are done."""
    _kill_one.done = False
    while not stop.is_set():
        done = len(list(points.glob("*.json"))) if points.exists() else 0
        busy = [worker for worker, tasks in client.processing().items() if tasks]
        if done >= 1 and busy:
            client.run(_end_self, workers=[busy[0]], on_error="ignore")
            _kill_one.done = True
            return
        time.sleep(0.01)


def _end_self():
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
