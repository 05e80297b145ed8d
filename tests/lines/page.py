#!/usr/bin/env python3
"""Prints the documentation page with the results of validate.py: page.py RESULTS.json > docs/results/lines-validation.md."""

import json
import statistics
import sys

import native
import validate

HEAD = """# How well loads and stores are predicted

What `tests/lines/validate.py` measured, as `tests/lines/page.py` prints it. A program runs natively on one core, and under
`unrack lines run`, whose model says how long it takes with all memory local. Nothing is fitted to a program. The aim: a median error of
15 %, none above 40 %. How each number is made is in [lines.md](../lines.md); what the errors are, in
[decision 18](../decisions/0018-lines.md).
"""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = json.load(file)
    print(HEAD)
    print(machine(rows))
    print(errors(rows))
    print(moves(rows))
    print(far(rows))


def machine(rows):
    """Returns a line that describes the machine of the measurements."""
    lines = rows[0]["lines"]
    times = lines["machine_times"]
    return (
        f"Measured with `{lines['processor'].split(':')[0]}` caches at {times['frequency_ghz']:.2f} GHz, memory at "
        f"{times['near_ns']:.0f} ns, in a virtual machine whose last level and memory others use, too: what is measured of it is measured "
        f"again before every {validate.BETWEEN} programs. Native times are user and system time of all processes, the median of runs before and "
        f"after the recorded one, with their least and greatest. Where the medians before and after differ by more than {native.AGREE - 1:.0%}, "
        f"all is measured again, up to {validate.TRIES} times.\n"
    )


def errors(rows):
    """Returns the table of all programs."""
    sizes = [abs(row["error"]) for row in rows]
    within = sum(size <= 0.15 for size in sizes)
    above = [row["name"] for row in rows if abs(row["error"]) > 0.4]
    text = [
        (
            f"{len(rows)} programs: median error {statistics.median(sizes):.0%}, {within} within 15 %, above 40 %: "
            f"{', '.join(above) or 'none'}.\n"
        ),
        "| program | 10^6 instructions | native, s | of it in the kernel | predicted, s | error |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        measured = f"{row['native_s']:.3f} ({row['native_min_s']:.3f} to {row['native_max_s']:.3f})"
        system = row["native_system_s"] / row["native_s"]
        text.append(
            f"| {row['name']} | {row['instructions'] / 1e6:.0f} | {measured} | {system:.0%} | {row['predicted_s']:.3f} | "
            f"{row['error']:+.0%} |"
        )
    apart = [row["name"] for row in rows if not row["agrees"]]
    if apart:
        text.append(f"\nNative times before and after never agreed: {', '.join(apart)}.")
    return "\n".join(text) + "\n"


def moves(rows):
    """Returns the table of the cost of moving a working set from the last cache level to memory."""
    text = [
        "## From the last level to memory\n",
        (
            f"Time of a unit of work with a working set between the sizes of the second level and the last ({mib(rows, 'cache')}), and beyond the "
            f"last ({mib(rows, 'memory')}): a change of latency that any machine has.\n"
        ),
        "| kernel | native, ns | predicted, ns | native | predicted |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, natives, predicted in validate.pairs(rows):
        both = [" to ".join(f"{ns:.2f}" for ns in ends) for ends in (natives, predicted)]
        ratios = [f"{ends[1] / ends[0]:.1f} times" for ends in (natives, predicted)]
        text.append(f"| {name} | {both[0]} | {both[1]} | {ratios[0]} | {ratios[1]} |")
    return "\n".join(text) + "\n"


def mib(rows, size):
    """Returns the working set of the kernels of one size."""
    return next(f"{row['bytes'] / 2**20:g} MiB" for row in rows if row["name"].endswith(f" {size}"))


def far(rows):
    """Returns the table of slowdowns at the latency that Pond emulates."""
    slowdowns = validate.far([row for row in rows if not row["items"]])
    text = [
        "## Beside what was published\n",
        (
            "Slowdowns of the programs (not the kernels) with all memory at 182 % of near latency. Li et al., Pond, ASPLOS 2023, section 3.3 "
            "and figure 4, measured 158 other programs at that ratio, 142 ns of another socket's memory to 78 ns: 43 % were slowed by less "
            "than 5 %, 21 % by more than 25 %. The programs differ, and most of ours are small: context, not a comparison.\n"
        ),
        "| program | slowdown |",
        "|---|--:|",
    ]
    text += [f"| {name} | {value - 1:+.1%} |" for name, value in slowdowns]
    below, above = validate.shares(slowdowns)
    text.append(f"\nBelow 5 %: {below} of {len(slowdowns)}; above 25 %: {above}.")
    return "\n".join(text)


if __name__ == "__main__":
    main()
