"""Native times of programs: user and system time of a process and its children."""

import os
import statistics
import subprocess
from dataclasses import dataclass


@dataclass
class Native:
    """Median, least and greatest time of several runs, and the system's part of the median run, in seconds."""

    median_s: float
    min_s: float
    max_s: float
    system_s: float
    output: bytes


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
        status, usage, output = run(program, ["taskset", "-c", str(core), *program.command])
        if status != 0:
            raise RuntimeError(f"{program.name}: natively it ended with status {status}")
        times.append((usage.ru_utime + usage.ru_stime, usage.ru_stime))
    totals = sorted(total for total, _ in times)
    middle = sorted(times)[len(times) // 2]
    return Native(statistics.median(totals), totals[0], totals[-1], middle[1], output)
