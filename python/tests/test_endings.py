"""Processes that end in the middle: Ctrl-C, forks, pickles, a full disk, and Python killed while the command runs."""

import concurrent.futures
import contextlib
import copy
import multiprocessing
import os
import pathlib
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock

import unrack
from pools import until
from tblib.pickling_support import pickle_exception
from unrack import command, verbs

ROOT = pathlib.Path(__file__).parents[2]
STAR = ROOT / "examples" / "star-edm.toml"

# Sends this process Ctrl-C as soon as a simulation shows that it has begun.
INTERRUPTED = """
import contextlib, os, signal, sys, unrack
import unrack.simulation, unrack.sweeps

@contextlib.contextmanager
def shown(*_):
    def show(done, of):
        if done > 0:
            os.kill(os.getpid(), signal.SIGINT)
    yield show

unrack.simulation.shown = unrack.sweeps.shown = shown
rack = unrack.Scenario(sys.argv[1]).replace({"workload.messages": 20_000_000})
try:
    CALL
except KeyboardInterrupt:
    print("ended")
unrack.simulation.shown = unrack.sweeps.shown = lambda *_: contextlib.nullcontext()
small = rack.replace({"workload.messages": 100})
print(unrack.simulate(small).summary["messages"], len(unrack.sweep(small, {"seed": [1, 2]})))
"""


def python(program, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def messages():
    return unrack.Messages(src=0, dst=1, bytes=64, gaps_ns=[10] * 500)


def in_a_child(work):
    """Calls `work` in a child by fork, which ends as programs do: with its finalizers."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            import atexit

            atexit._run_exitfuncs()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def count(scenario):
    return unrack.simulate(scenario).summary["messages"]


@contextlib.contextmanager
def disk_with_room_for(size):
    """Lets no file of this process grow beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class CtrlC(unittest.TestCase):
    def test_it_ends_simulations_and_sweeps_as_an_exception(self):
        for call in (
            "unrack.simulate(rack)",
            "unrack.sweep(rack, {'workload.load': [0.2, 0.3]}, threads=1)",
            "unrack.sweep(rack, {'workload.load': [0.2, 0.3, 0.4]}, threads=2)",
        ):
            child = python(INTERRUPTED.replace("CALL", call), STAR)
            out, said = child.communicate(timeout=120)
            self.assertEqual((out, said, child.returncode), ("ended\n100 2\n", "", 0), call)

    def test_an_error_of_the_progress_ends_the_work(self):
        @contextlib.contextmanager
        def shown(*_):
            yield lambda done, of: 1 / 0

        rack = unrack.Scenario(STAR).replace({"workload.messages": 20_000_000})
        with unittest.mock.patch("unrack.sweeps.shown", shown), self.assertRaises(ZeroDivisionError):
            unrack.sweep(rack, {"workload.load": [0.2, 0.3]})

    def test_it_ends_the_command_also_when_it_comes_twice(self):
        program = """
            import os, signal, sys, threading, unrack
            from unrack import command

            started = command._started
            def twice(*arguments):
                child = started(*arguments)
                print(child.pid, flush=True)
                wait = child.wait
                def interrupted(*limits):
                    os.kill(os.getpid(), signal.SIGINT)
                    return wait(*limits)
                child.wait = interrupted
                threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                return child
            command._started = twice
            try:
                unrack.verbs.sim(sys.argv[1], set="workload.messages=20000000")
            except KeyboardInterrupt:
                print("ended", flush=True)
            """
        child = python(program, STAR)
        out, said = child.communicate(timeout=60)
        number, ended = out.split("\n", 1)
        self.assertEqual(ended, "ended\n", said)
        until(lambda: not os.path.exists(f"/proc/{number}"), "the command runs on")


class Forks(unittest.TestCase):
    def test_a_child_leaves_the_folders_of_its_parent(self):
        found = unrack.sweep(STAR, {"workload.messages": [100, 200]})
        result = verbs.sim(STAR, set="workload.messages=100")
        own = messages().on(STAR)
        run = unrack.simulate(own)
        kept = [found, result, own, run]

        def ends():
            kept.clear()
            nonlocal found, result, own, run
            del found, result, own, run

        self.assertEqual(in_a_child(ends), 0)
        self.assertEqual(in_a_child(lambda: None), 0)
        self.assertTrue(found.folder.exists() and result.folder.exists())
        self.assertEqual((len(result.table("messages")), count(own)), (100, 500))

    def test_a_child_removes_what_it_made_itself(self):
        # No TemporaryDirectory: the child would remove it.
        above = tempfile.mkdtemp(prefix="unrack-python-")
        self.addCleanup(shutil.rmtree, above)
        with unittest.mock.patch.object(tempfile, "tempdir", above):
            held = []
            self.assertEqual(in_a_child(lambda: held.append(messages().on(STAR))), 0)
            self.assertEqual(os.listdir(above), [])
            held = [messages().on(STAR)]
            self.assertEqual(in_a_child(lambda: self.assertEqual(count(held[0]), 500)), 0)
            self.assertEqual(len(os.listdir(above)), 1)
            held.clear()
            self.assertEqual(os.listdir(above), [])

    def test_pools_of_processes_share_scenarios(self):
        own = messages().on(STAR)
        for how in ("fork", "spawn"):
            with multiprocessing.get_context(how).Pool(2) as pool:
                self.assertEqual(pool.map(count, [own, own.replace(seed=3), own]), [500] * 3)
            self.assertEqual(count(own), 500, how)

    def test_copies_keep_the_file(self):
        for made in (copy.copy, copy.deepcopy, lambda own: pickle.loads(pickle.dumps(own))):
            own = messages().on(STAR)
            other = made(own)
            self.assertEqual(count(other), 500)
            del other
            self.assertEqual(count(own), 500)
        for made in (copy.deepcopy, lambda own: pickle.loads(pickle.dumps(own))):
            again = made(messages())
            again.on(STAR)
            self.assertEqual(count(made(again).on(STAR)), 500)
        for result in (unrack.simulate(messages().on(STAR)), unrack.sweep(STAR, {"seed": [1, 2]}).table):
            with self.assertRaises(TypeError):
                pickle.dumps(result)
        for error in (
            unrack.Refused("a"),
            unrack.WrongType("a"),
            unrack.Lacking("a"),
            unrack.NotWritten("a"),
        ):
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), "a")
            # As Dask has them pickled, with their tracebacks.
            with_traceback = pickle_exception(error)
            self.assertEqual(str(with_traceback[0](*with_traceback[1])), "a")

    def test_threads_share_everything(self):
        own, shared = messages(), unrack.simulate(STAR)

        def work(_):
            found = unrack.sweep(own.on(STAR), {"fabric.protocol": ["edm", "cxl"]})
            return count(own.on(STAR)), len(shared.messages) == shared.summary["messages"], len(found)

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            self.assertEqual(list(threads.map(work, range(8))), [(500, True, 2)] * 8)


class FullDisks(unittest.TestCase):
    def test_a_cut_file_of_messages_is_never_used(self):
        many = unrack.Messages(src=0, dst=1, bytes=1_000_064, gaps_ns=[1] * 20_000)
        with tempfile.TemporaryDirectory() as above:
            before, tempfile.tempdir = tempfile.tempdir, above
            try:
                for _ in range(2):
                    with disk_with_room_for(100_000), self.assertRaises(unrack.NotWritten) as failed:
                        many.on(STAR)
                    self.assertIsInstance(failed.exception, OSError)
                    self.assertIsNotNone(failed.exception.errno)
                    self.assertEqual(os.listdir(above), [], "nothing is left")
                self.assertEqual(many.on(STAR).check()["workload"], "trace")
                file = pathlib.Path(above, "mine.csv")
                messages().save(file)
                whole = file.read_bytes()
                with disk_with_room_for(100_000), self.assertRaises(OSError):
                    many.save(file)
                self.assertEqual(file.read_bytes(), whole, "the earlier file stays")
                self.assertEqual([name for name in os.listdir(above) if "mine" in name], ["mine.csv"])
            finally:
                tempfile.tempdir = before

    def test_results_that_cannot_be_written_are_said(self):
        run, table = unrack.simulate(STAR), pathlib.Path("sweep.parquet")
        with tempfile.TemporaryDirectory() as above:
            file = pathlib.Path(above, "file")
            file.write_text("")
            for out in (file, file / "below", "/proc/none"):
                for call in (run.save, lambda out: unrack.sweep(STAR, out=out)):
                    with self.subTest(out=out), self.assertRaises(unrack.NotWritten) as failed:
                        call(out)
                    self.assertIsNotNone(failed.exception.errno)
            full = pathlib.Path(above, "full")
            with disk_with_room_for(1000), self.assertRaises(unrack.NotWritten):
                run.save(full)
            self.assertEqual(
                [path.name for path in full.iterdir() if path.suffix in (".json", ".parquet")], []
            )
            with disk_with_room_for(100), self.assertRaises(unrack.NotWritten):
                unrack.sweep(STAR, {"workload.messages": [50, 60]}, out=pathlib.Path(above, "sweep"))
            self.assertFalse(pathlib.Path(above, "sweep", table).exists())
            self.assertEqual(
                len(unrack.sweep(STAR, {"workload.messages": [50, 60]}, out=pathlib.Path(above, "sweep"))), 2
            )

    def test_no_temporary_folder(self):
        before, tempfile.tempdir = tempfile.tempdir, "/proc/none"
        try:
            for call in (lambda: messages().on(STAR), lambda: unrack.sweep(STAR), lambda: verbs.sim(STAR)):
                with self.assertRaisesRegex(unrack.NotWritten, "TMPDIR"):
                    call()
        finally:
            tempfile.tempdir = before

    def test_files_are_as_others_write_them(self):
        with tempfile.TemporaryDirectory() as folder:
            file, link = pathlib.Path(folder, "a.csv"), pathlib.Path(folder, "link.csv")
            link.symlink_to(file)
            messages().save(link)
            other = pathlib.Path(folder, "other")
            other.write_text("")
            self.assertEqual(file.stat().st_mode, other.stat().st_mode)
            self.assertTrue(link.is_symlink())


class Killed(unittest.TestCase):
    def ends_with_python(self, call, has_begun):
        """Kills a Python that waits for the command, and waits until the command and its children have ended."""
        program = f"""
            import sys, unrack
            from unrack import command

            started = command._started
            def told(*arguments):
                child = started(*arguments)
                print(child.pid, flush=True)
                return child
            command._started = told
            {call}
            """
        mark = f"unrack-killed-{os.getpid()}-{time.monotonic_ns()}"
        child = python(program, STAR, env={**os.environ, "UNRACK_TEST_MARK": mark})
        number = child.stdout.readline().strip()
        self.assertTrue(number, "it did not start")
        until(lambda: has_begun(number, mark), "it does not begin")
        self.addCleanup(_end, mark)
        child.kill()
        # Not until the end of its output, which all that it started has.
        child.wait()
        child.stdout.close()
        child.stderr.close()
        until(lambda: not _marked(mark), lambda: f"{list(_marked(mark).values())} are left")

    def test_the_command_ends_with_a_python_that_is_killed(self):
        self.ends_with_python("unrack.verbs.sim(sys.argv[1], set='workload.messages=50000000')", _works)

    def test_programs_of_the_command_end_too(self):
        answer = next(one for one in unrack.doctor()["verbs"] if (one["verb"], one["with"]) == ("run", ""))
        if not answer["can_run"]:
            from skips import skip

            skip("userfaultfd", "python.killed", answer["lacks"])
        self.ends_with_python(
            "unrack.run('sleep', '1000', local='50%')",
            lambda _, mark: any(line.startswith(b"sleep\0") for line in _marked(mark).values()),
        )

    def test_the_python_of_a_cluster_ends_with_its_command(self):
        silent = """
            import pathlib, time

            class Future:
                __class_getitem__ = classmethod(lambda cls, _: cls)

            class Client:
                def __init__(self, *_, **__):
                    pathlib.Path(__file__).with_name("asked").touch()
                    time.sleep(1000)
            """
        mark = f"unrack-killed-{os.getpid()}-{time.monotonic_ns()}"
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "distributed.py").write_text(textwrap.dedent(silent))
            path = os.pathsep.join([folder, os.environ["PYTHONPATH"]])
            named = {"PYTHONPATH": path, "UNRACK_PYTHON": sys.executable, "UNRACK_TEST_MARK": mark}
            child = subprocess.Popen(
                [os.environ["UNRACK"], "sweep", STAR, "--cluster=tcp://none", f"--out={folder}/out"],
                env={**os.environ, **named},
            )
            until(pathlib.Path(folder, "asked").exists, "no cluster is asked")
            self.addCleanup(_end, mark)
            child.kill()
            child.wait()
            until(lambda: not _marked(mark), lambda: f"{list(_marked(mark).values())} are left")

    def test_processes_that_inherit_the_variable_ignore_it(self):
        environment = {**os.environ, command.PARENT: str(os.getppid())}
        done = subprocess.run(
            [os.environ["UNRACK"], "doctor"], env=environment, capture_output=True, check=False
        )
        self.assertEqual(done.returncode, 0)


def _marked(mark):
    """Processes that have a text in their environment, by their numbers, but those that have ended."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
    return found


def _end(mark):
    for number in _marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _works(number, _):
    """Whether a process has used more time than a start takes."""
    try:
        words = pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    return int(words[11]) + int(words[12]) > 20


class Comparisons(unittest.TestCase):
    """Comparisons are asked in this process, and the command makes their runs."""

    PROGRAM = """
        import subprocess, sys, unrack
        other = subprocess.Popen(["sleep", "1001"])
        print("begun", flush=True)
        try:
            unrack.compare("sleep", "1000")
        except KeyboardInterrupt:
            print("ended, and the other child", other.poll())
        other.kill()
        """

    def setUp(self):
        answer = next(
            one for one in unrack.doctor()["verbs"] if (one["verb"], one["with"]) == ("compare", "")
        )
        if not answer["can_run"]:
            from skips import skip

            skip("userfaultfd", "python.comparisons", answer["lacks"])

    def begun(self):
        """Starts a Python whose comparison runs its program, and returns it with its mark."""
        mark = f"unrack-compared-{os.getpid()}-{time.monotonic_ns()}"
        child = python(self.PROGRAM, env={**os.environ, "UNRACK_TEST_MARK": mark})
        self.addCleanup(_end, mark)
        self.assertEqual(child.stdout.readline(), "begun\n")
        until(lambda: b"sleep\x001000\0" in _marked(mark).values(), "the program does not run")
        return child, mark

    def test_ctrl_c_ends_the_run_and_no_other_child(self):
        child, mark = self.begun()
        child.send_signal(signal.SIGINT)
        out, said = child.communicate(timeout=60)
        self.assertEqual((out, child.returncode), ("ended, and the other child None\n", 0), said)
        until(lambda: not _marked(mark), lambda: f"{list(_marked(mark).values())} are left")

    def test_the_run_ends_with_a_python_that_is_killed(self):
        child, mark = self.begun()
        child.kill()
        child.wait()
        child.stdout.close()
        child.stderr.close()

        def left():
            return [words for words in _marked(mark).values() if words != b"sleep\x001001\0"]

        until(lambda: not left(), lambda: f"{left()} are left")


class Imports(unittest.TestCase):
    def test_a_tree_that_was_not_built_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as above:
            shutil.copytree(
                ROOT / "python" / "unrack",
                pathlib.Path(above, "unrack"),
                ignore=shutil.ignore_patterns("*.so"),
            )
            child = python("import unrack", env={**os.environ, "PYTHONPATH": above})
            _, said = child.communicate()
        self.assertEqual(child.returncode, 1)
        self.assertRegex(said.strip().splitlines()[-1], "ImportError: .*pip install unrack.*make build")

    def test_a_command_that_cannot_be_started_is_lacking(self):
        for named in ("/none/unrack", "/etc/passwd", "/"):
            there = unittest.mock.patch.dict(os.environ, UNRACK=named)
            with there, self.assertRaisesRegex(unrack.Lacking, "UNRACK"):
                unrack.doctor()


if __name__ == "__main__":
    unittest.main()
