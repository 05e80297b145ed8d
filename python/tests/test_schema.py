"""`unrack schema`, as editors use it: taplo, which is not ours, accepts every example and refuses what is no scenario."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
TAPLO = pathlib.Path(sys.executable).parent / "taplo"
# Scenarios of networks: those of virtual machines have no fabric.
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.toml")) if "[[host]]" not in path.read_text()]

STAR = """
[network]
topology = { kind = "star", nodes = 4 }
[fabric]
protocol = "edm"
[workload]
kind = "memory"
messages = 10
"""


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.schema = pathlib.Path(cls.folder.name) / "unrack.schema.json"
        printed = subprocess.run([os.environ["UNRACK"], "schema"], check=True, capture_output=True)
        cls.schema.write_bytes(printed.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def lint(self, *files):
        command = [TAPLO, "lint", "--schema", self.schema.as_uri(), *files]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder.name)
        return done.returncode == 0, done.stderr

    def refused(self, text):
        file = pathlib.Path(self.folder.name) / "case.toml"
        file.write_text(text)
        check = [os.environ["UNRACK"], "scenario", "check", file]
        checked = subprocess.run(check, check=False, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 2, f"{text}: {checked.stdout}")
        accepted, said = self.lint(file)
        self.assertFalse(accepted, f"accepted: {text}{said}")

    def test_every_example_is_accepted(self):
        self.assertGreater(len(EXAMPLES), 10)
        accepted, said = self.lint(*EXAMPLES)
        self.assertTrue(accepted, said)

    def test_a_scenario_in_full_is_accepted(self):
        for example in EXAMPLES:
            full = subprocess.run(
                [os.environ["UNRACK"], "scenario", "explain", example],
                check=True,
                capture_output=True,
                text=True,
                cwd=ROOT,
            )
            file = pathlib.Path(self.folder.name) / "full.toml"
            file.write_text(full.stdout)
            accepted, said = self.lint(file)
            self.assertTrue(accepted, f"{example}: {said}")

    def test_unknown_keys_are_refused_in_every_table(self):
        self.refused(STAR + "loda = 0.5\n")
        self.refused(STAR.replace("[fabric]\n", "[fabric]\nchunks = 3\n"))
        self.refused(STAR.replace("nodes = 4", "nodes = 4, racks = 2"))
        self.refused(STAR.replace("[network]\n", "[network]\nlinks = {}\n"))
        self.refused(STAR.replace("[network]\n", '[network]\nlink = { rat = "1Gbps" }\n'))
        self.refused("sed = 1\n" + STAR)

    def test_other_types_are_refused(self):
        self.refused(STAR.replace("messages = 10", 'messages = "ten"'))
        self.refused(STAR.replace("nodes = 4", "nodes = 4.5"))
        self.refused("seed = true\n" + STAR)
        self.refused(STAR.replace('protocol = "edm"', 'protocol = "edn"'))
        self.refused(STAR.replace('kind = "star"', 'kind = "ring"'))
        self.refused(STAR.replace("[network]\n", "[network]\nlink = 3\n"))

    def test_keys_have_their_meanings(self):
        schema = json.loads(self.schema.read_text())
        protocols = {choice["title"]: choice for choice in schema["properties"]["fabric"]["oneOf"]}
        for name in ["ideal", "edm", "cxl", "tcp", "r2c2", "pfq"]:
            self.assertIn(name, protocols)
        self.assertTrue(protocols["edm"]["properties"]["chunk"]["description"])
        self.assertTrue(schema["properties"]["network"]["properties"]["link"]["description"])


if __name__ == "__main__":
    unittest.main()
