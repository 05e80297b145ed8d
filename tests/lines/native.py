"""Measures native times of programs: user and system time of a process and its children."""

import os
import statistics
import subprocess
from dataclasses import dataclass

# Maximum ratio of the medians of two groups of runs that agree.
AGREE = 1.15


@dataclass
class Native:
    """Times of several runs in seconds, with the system time of each, and the output of the last run."""

    times: list
    output: bytes

    @property
    def median_s(self):
        return statistics.median(total for total, _ in self.times)

    @property
    def min_s(self):
        return min(self.times)[0]

    @property
    def max_s(self):
        return max(self.times)[0]

    @property
    def system_s(self):
        """System time of the median run."""
        return sorted(self.times)[len(self.times) // 2][1]

    def agrees(self, other):
        """Returns whether the ratio of the medians of two groups of runs is at most AGREE."""
        low, high = sorted((self.median_s, other.median_s))
        return high <= AGREE * low

    def joined(self, other):
        """Returns the runs of this and another group as one group."""
        return Native(self.times + other.times, other.output)


def on_core(core):
    """Returns the command prefix that pins a command to a core."""
    return ["taskset", "-c", str(core)]


def run(program, command):
    """Runs a command with the program's input and environment; returns its status, usage and output."""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "0", **program.environment}
    with open(program.stdin or os.devnull, "rb") as stdin:
        child = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, env=environment)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    return child.returncode, usage, output


def measure(program, runs, core):
    """Times a program natively on one core."""
    times, output = [], b""
    for _ in range(runs):
        status, usage, output = run(program, [*on_core(core), *program.command])
        if status != 0:
            raise RuntimeError(f"{program.name}: natively it ended with status {status}")
        times.append((usage.ru_utime + usage.ru_stime, usage.ru_stime))
    return Native(times, output)
