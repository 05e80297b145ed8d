#!/usr/bin/env python3
"""Compares predicted with measured run times of programs: see README.md."""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile

import native
import programs

# Number of programs between two measurements of the machine, which are repeated because the load of its neighbours varies.
BETWEEN = 3
# Maximum number of measurements of a program. It is measured again if the native runs before and after the recorded run disagree.
TRIES = 4
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


def main():
    asked = arguments()
    with tempfile.TemporaryDirectory() as folder:
        working_sets = programs.sizes(calibrate(asked)["levels"])
        listed = programs.kernels(asked.build, working_sets) + programs.applications(ROOT, folder)
        wanted = [
            p for p in listed if not asked.only or any(p.name.startswith(o) for o in asked.only.split(","))
        ]
        rows = []
        for number, program in enumerate(wanted):
            if number > 0 and number % BETWEEN == 0:
                calibrate(asked)
            rows += [row for row in [compared(program, asked, folder)] if row]
            keep(rows, asked.json)
    conclude(rows)
    kernels(rows)
    context([row for row in rows if not row["items"]])


def keep(rows, path):
    """Writes the rows so far to a file, if one was named, because a run takes up to an hour and may be interrupted."""
    if path:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
        os.replace(path + ".new", path)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "target/release"), help="folder of the build")
    parser.add_argument("--only", help="names to run, or their beginnings, separated by commas")
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        help="native runs of each program before the recorded one, and as many after it",
    )
    parser.add_argument("--core", type=int, default=1, help="core for all runs")
    parser.add_argument("--json", help="file for all numbers")
    parser.add_argument("--unrack", help="the program to validate (default: unrack of the build)")
    asked = parser.parse_args()
    asked.unrack = asked.unrack or os.path.join(asked.build, "unrack")
    return asked


def calibrate(asked):
    """Measures the core on which the programs run, and returns the results."""
    command = [*native.on_core(asked.core), asked.unrack, "lines", "calibrate", "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def compared(program, asked, folder):
    """Runs a program natively and recorded until its native times agree, then prints and returns its row."""
    answer = os.path.join(folder, "predicted.json")
    try:
        for number in range(1, TRIES + 1):
            if number > 1:
                calibrate(asked)
            row, is_calm = tried(program, asked, answer)
            row["tries"] = number
            if is_calm:
                break
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        print(f"{program.name:24} {error}", flush=True)
        return None
    row["agrees"] = is_calm
    print_row(row)
    return row


def tried(program, asked, answer):
    """Runs a program natively, recorded, and natively again; returns its row, and whether both native times agree."""
    if os.path.exists(answer):
        os.remove(answer)
    before = native.measure(program, asked.runs, asked.core)
    # Use the same core for all runs: the sibling hyper-thread of each core has different work, so results do not carry over to another.
    instrumented = [
        *native.on_core(asked.core),
        asked.unrack,
        "lines",
        "run",
        "--once",
        "--json",
        answer,
        "--",
        *program.command,
    ]
    status, usage, output = native.run(program, instrumented)
    with open(answer, encoding="utf-8") as file:
        lines = json.load(file)["lines"]
    predicted_s = stated(lines["predicted_processor_s"])
    after = native.measure(program, asked.runs, asked.core)
    measured = before.joined(after)
    row = {
        "name": program.name,
        "bytes": program.bytes,
        "native_s": measured.median_s,
        "native_min_s": measured.min_s,
        "native_max_s": measured.max_s,
        "native_system_s": measured.system_s,
        "instrumented_s": usage.ru_utime + usage.ru_stime,
        "same_output": status == 0 and output.startswith(measured.output),
        "items": items(output),
        "instructions": lines["counts"]["instructions"],
        "predicted_s": predicted_s,
        "error": predicted_s / measured.median_s - 1,
        "lines": lines,
    }
    return row, before.agrees(after)


def stated(number):
    """Returns the value of a stated number. Raises an error if the number is withheld."""
    if "value" not in number:
        raise ValueError(f"no prediction: {number.get('withheld', number)}")
    return number["value"]


def items(output):
    """Returns the units of work that a kernel reports, or None if it reports none."""
    words = output.decode(errors="replace").split()
    return int(words[words.index("items") + 1]) if "items" in words and "checksum" in words else None


def print_row(row):
    if not print_row.is_headed:
        print(
            f"{'program':24} {'10^6 instr.':>11} {'native s (min to max)':>25} {'of it sys':>9} {'predicted s':>11} "
            f"{'error':>7} {'cost':>6}"
        )
        print_row.is_headed = True
    spread = f"{row['native_s']:.3f} ({row['native_min_s']:.3f} to {row['native_max_s']:.3f})"
    cost = f"{row['instrumented_s'] / row['native_s']:.0f}x"
    notes = [(not row["same_output"], "OUTPUT DIFFERS"), (not row["agrees"], "native times do not agree")]
    note = "".join(f"  {text}" for is_so, text in notes if is_so)
    print(
        f"{row['name']:24} {row['instructions'] / 1e6:11.1f} {spread:>25} {row['native_system_s']:9.3f} "
        f"{row['predicted_s']:11.3f} {row['error']:+7.0%} {cost:>6}{note}",
        flush=True,
    )


print_row.is_headed = False


def conclude(rows):
    """Prints the median and the maximum error of the predictions."""
    if not rows:
        sys.exit("no program was compared")
    errors = sorted((abs(row["error"]), row["name"]) for row in rows)
    worst = errors[-1]
    above = sum(error > 0.4 for error, _ in errors)
    print(
        f"\n{len(rows)} programs: median error {statistics.median(e for e, _ in errors):.0%}, worst {worst[0]:.0%} "
        f"({worst[1]}), {above} above 40 %"
    )


def kernels(rows):
    """Prints, for each kernel, how much longer a unit of work takes with data in memory than in the last cache level."""
    print(f"\n{'kernel':16} {'native ns':>19} {'predicted ns':>19} {'native':>8} {'predicted':>9}")
    for name, natives, predicteds in pairs(rows):
        both = [" to ".join(f"{ns:.2f}" for ns in ends) for ends in (natives, predicteds)]
        slowdowns = [ends[1] / ends[0] for ends in (natives, predicteds)]
        print(f"{name:16} {both[0]:>19} {both[1]:>19} {slowdowns[0]:7.1f}x {slowdowns[1]:8.1f}x")


def pairs(rows):
    """Returns the kernels that ran in both sizes, with their native and predicted nanoseconds per unit of work."""
    by_name = {row["name"]: row for row in rows if row["items"]}
    for name in sorted({name.split()[0] for name in by_name}):
        pair = [by_name.get(f"{name} {size}") for size in programs.SIZES]
        if None not in pair:
            yield (
                name,
                *([1e9 * row[key] / row["items"] for row in pair] for key in ("native_s", "predicted_s")),
            )


def context(rows):
    """Prints slowdowns of programs whose whole memory has the latency of Pond's (ASPLOS 2023, section 3.3), 182 % of local memory's."""
    slowdowns = far(rows)
    if not slowdowns:
        return
    print("\nall memory at 182 % of near latency:")
    for name, value in slowdowns:
        print(f"{name:24} {value - 1:+7.1%}")
    below, above = shares(slowdowns)
    print(
        f"below 5 %: {below} of {len(slowdowns)} programs; above 25 %: {above}. Pond, figure 4, other programs: below 5 % 43 % of 158, "
        "above 25 % 21 %"
    )


def far(rows):
    """Returns the names and slowdowns of programs at 182 % of near latency, in ascending order of slowdown."""
    slowdowns = ((row["name"], at(row["lines"], 1.82)) for row in rows)
    return sorted(((name, value) for name, value in slowdowns if value is not None), key=lambda pair: pair[1])


def shares(slowdowns):
    """Returns the number of programs with a slowdown below 5 %, and the number with one above 25 %."""
    values = [value for _, value in slowdowns]
    return sum(value < 1.05 for value in values), sum(value > 1.25 for value in values)


def at(lines, ratio):
    """Returns the slowdown with all memory far at a ratio of latencies, interpolated between two points of the curve, or None."""
    curve = next(
        (one["curve"] for one in lines["placements"] if one["placement"] in ("all remote", "all far")), []
    )
    near_ns = lines["machine_times"]["near_ns"]
    points = [(near_ns, 1.0)] + [
        (p["latency_ns"], p["slowdown"]["value"]) for p in curve if "value" in p["slowdown"]
    ]
    wanted = ratio * near_ns
    for (low, a), (high, b) in itertools.pairwise(points):
        if low <= wanted <= high:
            return a + (b - a) * (wanted - low) / (high - low)
    return None


if __name__ == "__main__":
    main()
