"""Runs the blocks marked `<!-- run -->` of docs/tutorials, and checks that each prints the output that follows it on the page.

The blocks of a page share one shell and one empty folder, which has a link to the repository's `examples`. The output must contain the
lines of the expected block in the given order, and in each line the parts between `…`. UNRACK names the command, whose folder must also
contain its libraries.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^<!-- run -->\n```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
MARK = "== end of a block =="


def run(page, unrack):
    """Runs the blocks of a page. Returns a description of the first failure, or None."""
    blocks = BLOCK.findall(page.read_text())
    if not blocks:
        return "no block to run"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "examples").symlink_to(ROOT / "examples")
        script = "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\nset -euo pipefail\n"
        script += "".join(f"{commands}echo; echo '{MARK}'\n" for commands, _ in blocks)
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environment(folder, unrack), text=True, timeout=120,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    outputs = done.stdout.split(MARK)
    if done.returncode or len(outputs) != len(blocks) + 1:
        return f"status {done.returncode} in block {len(outputs)} of {len(blocks)}:\n{outputs[-1]}"
    for (commands, wanted), output in zip(blocks, outputs, strict=False):
        if (part := missing(wanted, output)) is not None:
            return f"{commands}\nlacks `{part}` in:\n{output}"
    return None


def run_in_quiet(page, unrack):
    """Runs a page up to three times, as long as answers are withheld because other work disturbed the measurement."""
    for _ in range(3):
        failure = run(page, unrack)
        if failure is None or "other work" not in failure:
            break
    return failure


def environment(folder, unrack):
    """Returns the environment of a reader who has installed the command, without the pools of other programs."""
    return os.environ | {
        # A version manager's `python3` is a script that starts further processes, which would be measured too.
        "PATH": f"{unrack.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "UNRACK_RPC_LIBRARY": str(unrack.parent / "libunrack_rpc.so"),
        "XDG_RUNTIME_DIR": folder,
    }


def missing(wanted, output):
    """Returns the first part of the wanted output that the output does not contain after the earlier parts, or None."""
    at = 0
    for part in (part.strip() for line in wanted.splitlines() for part in line.split("…")):
        found = output.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return None


def main():
    """Runs the named pages, or all pages if none is named. Returns the exit status."""
    unrack = Path(os.environ["UNRACK"]).resolve()
    pages = [Path(name) for name in sys.argv[1:]] or sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    failures = [(page, failure) for page in pages if (failure := run_in_quiet(page, unrack))]
    for page, failure in failures:
        print(f"{page}: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
