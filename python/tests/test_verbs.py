"""Verbs from Python: one definition with the command, and what they return."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import unrack
from skips import skip
from unrack import verbs

ROOT = pathlib.Path(__file__).parents[2]
STAR = ROOT / "examples" / "star-edm.toml"


def need(verb):
    """Skips the test if this machine lacks what the verb needs."""
    answer = next(one for one in unrack.doctor()["verbs"] if (one["verb"], one["with"]) == (verb, ""))
    if not answer["can_run"]:
        skip("userfaultfd", f"python.{verb}", answer["lacks"])


class Verbs(unittest.TestCase):
    def test_the_functions_are_those_that_the_command_defines(self):
        written = ROOT / "python" / "unrack" / "verbs.py"
        before = written.read_text()
        subprocess.run([sys.executable, ROOT / "python" / "generate.py", os.environ["UNRACK"]], check=True)
        after = written.read_text()
        written.write_text(before)
        self.assertEqual(before, after, "run python/generate.py: the command's verbs have changed")

    def test_a_result_is_a_mapping_with_its_folder_and_tables(self):
        result = verbs.sim(STAR, set=["workload.messages=300", "workload.load=0.2"])
        self.assertEqual(result["messages"], 300)
        self.assertEqual(result.tables, ["completions", "messages"])
        self.assertEqual(len(result.table("messages")), 300)
        folder = result.folder
        self.assertTrue(folder.exists())
        with self.assertRaises(KeyError):
            result.table("trace")
        del result
        self.assertFalse(folder.exists(), "a folder that was not named goes with its result")

    def test_a_named_folder_stays(self):
        with tempfile.TemporaryDirectory() as above:
            out = pathlib.Path(above, "run")
            verbs.sim(STAR, set="workload.messages=300", out=out)
            self.assertTrue((out / "manifest.json").exists())
            with self.assertRaises(unrack.Refused):
                verbs.sim(STAR, set="workload.messages=400", out=out)
            verbs.sim(STAR, set="workload.messages=400", out=out, replace=True)

    def test_exit_statuses_are_exceptions(self):
        with self.assertRaises(unrack.Refused) as refused:
            verbs.sim(STAR, set="workload.loat=1")
        self.assertIn("workload.loat", str(refused.exception))
        with self.assertRaises(unrack.Failed):
            verbs.sim(STAR, set="workload.messages=300", fail_if="messages>100")

    def test_doctor_says_what_there_is(self):
        answer = unrack.doctor()
        self.assertIn("sim", str(dict(answer)))

    def test_studies_run(self):
        listed = verbs.study_list()
        self.assertIn("edm/", listed.text)
        result = unrack.study("edm/table1", quick=True)
        self.assertTrue(result.folder.exists())

    def test_a_program_is_compared_and_its_result_has_pictures(self):
        need("compare")
        program = "x = bytearray(40 << 20)\nfor _ in range(3):\n for i in range(0, len(x), 4096): x[i] += 1\n"
        result = unrack.compare(
            sys.executable, "-c", program, fabric=["ideal", "edm"], repeat=1, transfers=3000
        )
        self.assertEqual([row["fabric"] for row in result["fabrics"]], ["ideal", "edm"])
        self.assertIn("trace", result.tables)
        self.assertIn("svg", result._repr_html_())

    def test_a_wrong_question_is_refused_before_anything_runs(self):
        wrong = {
            "local": "much",
            "fabric": "emd",
            "nodes": 1,
            "repeat": 0,
            "budget": "0s",
            "rack": "ring",
            "rate": "fast",
        }
        for name, value in wrong.items():
            with self.assertRaises(unrack.Refused, msg=name):
                unrack.compare("true", **{name: value})
        with self.assertRaises(unrack.Refused):
            unrack.map("true", local=["25%", "much"])
        with self.assertRaises(unrack.Refused):
            unrack.compare()

    def test_run_returns_the_status_of_the_program(self):
        need("run")
        result = unrack.run(sys.executable, "-c", "raise SystemExit(7)", local="50%")
        self.assertEqual(result.status, 7)
        self.assertIn("fetches", str(dict(result)))


if __name__ == "__main__":
    unittest.main()
