"""The backend `unrack` of PyTorch beside gloo: `make torch`. Needs the command (UNRACK), the library, and PyTorch."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pools import Pool, until
from skips import skip

try:
    import torch
except ImportError as error:
    torch = None
    missing = str(error)

RANKS = str(Path(__file__).with_name("ranks_of_torch.py"))


class Groups(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if torch is None:
            skip("torch", cls.__name__, f"PyTorch is not installed (`make torch` installs it): {missing}")

    def setUp(self):
        self.pool = self.enterContext(Pool("512MiB"))
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_ranks(self, backend, size, job):
        """What each rank leaves."""
        environment = os.environ | {"UNRACK_POOL": self.pool.path, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, RANKS, backend]
        ranks = [
            subprocess.Popen(
                [*command, str(rank), str(size), self.folder, job],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(size)
        ]
        for rank in ranks:
            self.addCleanup(rank.kill)
        said = [rank.communicate()[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * size, "\n".join(said))
        return [torch.load(Path(self.folder, f"{backend}-{job}-{rank}.pt")) for rank in range(size)]

    def assert_as_with_gloo(self, size, job):
        ours, theirs = (self.run_ranks(backend, size, job) for backend in ("unrack", "gloo"))
        for rank, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            self.assertEqual(one.keys(), other.keys())
            for key in one:
                same = (
                    one[key] == other[key] if isinstance(one[key], str) else torch.equal(one[key], other[key])
                )
                self.assertTrue(
                    same, f"{job}, rank {rank} of {size}, {key}: {one[key]}, with gloo {other[key]}"
                )
        until(self.pool.is_empty, lambda: f"{self.pool.books()} is left")
        return ours

    def test_collectives_are_as_with_gloo(self):
        for size in (2, 3):
            with self.subTest(size=size):
                self.assert_as_with_gloo(size, "collectives")

    def test_parts_of_different_sizes(self):
        self.assert_as_with_gloo(3, "uneven")

    def test_tensors_that_are_no_runs_of_memory(self):
        for size in (2, 3):
            self.assertEqual(self.run_ranks("unrack", size, "strides"), [{"right": True}] * size)

    def test_single_messages_are_as_with_gloo(self):
        for size in (2, 4):
            with self.subTest(size=size):
                self.assert_as_with_gloo(size, "messages")

    def test_a_rank_that_has_left_does_not_keep_others_from_being_heard(self):
        found = self.run_ranks("unrack", 3, "leaving")[0]
        self.assertEqual((found["source"], found["received"], found["other"]), (2, [2.0] * 5, [7.0] * 5))
        self.assertIn("has left the group", found["ended"])

    def test_collectives_under_way_together(self):
        self.assert_as_with_gloo(3, "asynchronous")

    def test_objects(self):
        self.assert_as_with_gloo(3, "objects")

    def test_a_model_trains_with_the_same_losses(self):
        losses = self.assert_as_with_gloo(2, "training")[0]["losses"]
        self.assertEqual(len(set(losses.tolist())), 6)

    def test_errors_say_what_to_do(self):
        for said in self.run_ranks("unrack", 3, "errors"):
            self.assertIn("move it by `.cpu()`", said["device"])
            self.assertIn("shape (4,)", said["shape"])
            self.assertEqual(
                said.get("ended", "rank 2 has ended, or has left the group"),
                "rank 2 has ended, or has left the group",
            )
        until(self.pool.is_empty, lambda: f"{self.pool.books()} is left")

    def test_a_pool_that_is_not_served_is_said(self):
        environment = os.environ | {"UNRACK_POOL": self.pool.path + "-none"}
        command = [sys.executable, RANKS, "unrack", "0", "1", self.folder, "objects"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("unrack pool serve", run.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
