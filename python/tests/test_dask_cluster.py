"""Clusters of Dask over a pool: nothing differs but the address. Needs the command (UNRACK) and the library."""

import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
import unittest
import unittest.mock
from pathlib import Path

import dask.array as da
import dask.config
import numpy as np
from distributed import CancelledError, Client, LocalCluster, wait
from distributed.comm import CommClosedError
from pools import Pool, is_in_pool, until

PACKAGE = Path(__file__).parents[1]


def installed(folder):
    """Writes what an installation says of the package, so that every process finds the backend by it."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    info = Path(folder) / f"unrack-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: unrack\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


def seen(array):
    """What a task sees of its argument: whether it lies in a pool, may be written, and its sum."""
    return is_in_pool(array), array.flags.writeable, float(array.sum())


def made(size):
    return np.arange(size, dtype=float)


def sum_of(*arrays):
    return float(sum(array.sum() for array in arrays))


def worker_process():
    return os.getpid()


class Clusters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        installed(folder)
        # Workers find the modules of tests, too.
        paths = [folder, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        path, cls.old_path = os.pathsep.join(paths), os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = path
        cls.addClassCleanup(cls.restore)
        sys.path.insert(0, folder)
        cls.addClassCleanup(sys.path.remove, folder)

    @classmethod
    def restore(cls):
        if cls.old_path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = cls.old_path

    def setUp(self):
        self.pool = self.enterContext(Pool("1GiB", per_client="50%"))
        self.addCleanup(self.comes_back)
        self.enterContext(dask.config.set({"distributed.comm.unrack.pool": self.pool.path}))

    def comes_back(self):
        gc.collect()
        until(self.pool.is_empty, lambda: f"{self.pool.books()} is left")

    def cluster(self, workers=2):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            protocol="unrack",
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
        self.enterContext(cluster)
        client = self.enterContext(Client(cluster))
        self.assertTrue(cluster.scheduler_address.startswith("unrack://127.0.0.1:"))
        addresses = list(client.scheduler_info(n_workers=-1)["workers"])
        self.assertEqual(len(addresses), workers)
        self.assertTrue(all(address.startswith("unrack://127.0.0.1:") for address in addresses))
        return client, addresses

    def test_arrays_pass_between_workers_by_reference(self):
        client, (first, second) = self.cluster()
        array = client.submit(made, 1_000_000, workers=[first])
        there = client.submit(seen, array, workers=[second])
        self.assertEqual(there.result(), (True, True, float(sum(range(1_000_000)))))
        # From the client through the scheduler, and back.
        (sent,) = client.scatter([np.ones(500_000)], workers=[first])
        self.assertEqual(client.submit(seen, sent, workers=[second]).result()[::2], (True, 500_000.0))
        np.testing.assert_array_equal(array.result(), np.arange(1_000_000))

    def test_a_transpose_is_right(self):
        self.cluster()
        one = da.arange(1_000_000, chunks=250_000).reshape((1000, 1000)).rechunk((250, 250)).persist()
        wait(one)
        ours = (one + one.T).compute()
        expected = np.arange(1_000_000).reshape((1000, 1000))
        np.testing.assert_array_equal(ours, expected + expected.T)

    def test_a_shuffle_is_right(self):
        client, _ = self.cluster()
        array = da.arange(2_000_000, chunks=200_000)
        moved = client.persist(array.reshape((2000, 1000)).rechunk((2000, 100)).rechunk((200, 1000)))
        np.testing.assert_array_equal(moved.compute(), np.arange(2_000_000).reshape((2000, 1000)))

    def test_a_worker_that_is_killed_costs_its_own_work_only(self):
        client, addresses = self.cluster(3)
        arrays = [
            client.submit(made, 300_000 + part, workers=[addresses[part % 3]], allow_other_workers=True)
            for part in range(12)
        ]
        wait(arrays)
        # Every worker has arrays of the others.
        before = [
            client.submit(seen, array, workers=[addresses[(at + 1) % 3]], allow_other_workers=True)
            for at, array in enumerate(arrays)
        ]
        wait(before)
        processes = client.run(worker_process)
        victim = addresses[1]
        os.kill(processes[victim], signal.SIGKILL)
        after = [client.submit(float, client.submit(np.sum, array)) for array in arrays]
        for part, total in enumerate(client.gather(after)):
            size = 300_000 + part
            self.assertEqual(total, size * (size - 1) / 2)
        for part, result in enumerate(client.gather(before)):
            size = 300_000 + part
            self.assertEqual(result[2], size * (size - 1) / 2)
        # The two others were not started again.
        for address in (addresses[0], addresses[2]):
            self.assertEqual(client.run(worker_process, workers=[address]), {address: processes[address]})

    def test_a_job_fails_when_its_pool_is_gone(self):
        pool = self.enterContext(Pool("256MiB", per_client="50%"))
        self.enterContext(dask.config.set({"distributed.comm.unrack.pool": pool.path}))
        self.enterContext(unittest.mock.patch("unrack.dask._LOOK", 0.1))
        cluster = LocalCluster(
            n_workers=2,
            processes=False,
            protocol="unrack",
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
        client = Client(cluster)
        try:
            arrays = [client.submit(made, 300_000 + part) for part in range(4)]
            wait(arrays)
            pool.kill()
            with self.assertRaises((CommClosedError, CancelledError)):
                client.submit(sum_of, *arrays).result(timeout=60)
                client.gather(arrays)
        finally:
            for closed in (client, cluster):
                with contextlib.suppress(Exception):
                    closed.close(timeout=5)

    def test_a_job_goes_on_when_another_manager_takes_over(self):
        with unittest.mock.patch("unrack.dask._LOOK", 0.5):
            client, (first, second) = self.cluster()
            array = client.submit(made, 300_000, workers=[first])
            wait(array)
            self.pool.kill()
            self.pool.start()
            self.assertEqual(
                client.submit(sum_of, array, workers=[second]).result(timeout=60), 300_000 * 299_999 / 2
            )

    def test_the_demo_runs(self):
        environment = os.environ | {"DASK_DISTRIBUTED__COMM__UNRACK__POOL": self.pool.path}
        command = [sys.executable, "-m", "unrack.dask_demo", "--megabytes", "8"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"transpose of 8 MB: .* in the pool: \d+ of \d+ ")

    def test_the_demo_says_that_no_pool_is_served(self):
        environment = os.environ | {"DASK_DISTRIBUTED__COMM__UNRACK__POOL": self.pool.path + "-none"}
        command = [sys.executable, "-m", "unrack.dask_demo"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertRegex(run.stderr, "^unrack.dask_demo: no manager serves the pool.*unrack pool serve")


if __name__ == "__main__":
    unittest.main()
