"""Specifications of pictures, read by Altair, which validates them. Needs the command (UNRACK)."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import altair

EXAMPLES = Path(__file__).parents[2] / "examples"


class Pictures(unittest.TestCase):
    def specifications(self, *command):
        """Returns the specifications that a command writes into its folder, by the names of their files."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for arguments in command:
            subprocess.run(
                [os.environ["UNRACK"], *arguments],
                check=True,
                capture_output=True,
                cwd=folder.name,
            )
        files = Path(folder.name).rglob("*.vl.json")
        return {file.name: file.read_text() for file in files}

    def check(self, specifications):
        for name, text in specifications.items():
            with self.subTest(name):
                chart = altair.Chart.from_json(text)
                data = json.loads(text)["data"]["values"]
                [values] = chart.to_dict()["datasets"].values()
                self.assertEqual(values, data)
                self.assertGreater(len(data), 0)

    def test_figures_of_a_simulation(self):
        scenario = str(EXAMPLES / "star-edm.toml")
        found = self.specifications(
            ["sim", scenario, "--set", "workload.messages=2000", "--out", "run"],
            ["report", "run", "--svg", "figures"],
        )
        self.assertGreaterEqual(
            set(found),
            {"message-slowdown.vl.json", "slowdown-by-size.vl.json", "slowdown-cdf.vl.json"},
        )
        self.check(found)

    def test_figures_of_a_sweep(self):
        scenario = str(EXAMPLES / "star-edm.toml")
        loads = ["--set", "workload.load=0.3,0.6", "--set", "workload.messages=500"]
        found = self.specifications(["sweep", scenario, *loads, "--seeds", "1..2", "--out", "run"])
        self.assertEqual(set(found), {"sweep-mean.vl.json", "sweep-p99.vl.json"})
        self.check(found)


if __name__ == "__main__":
    unittest.main()
