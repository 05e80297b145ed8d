"""Runs the tutorials: the blocks after `<!-- run -->` of docs/tutorials, and looks for the output that follows them.

Blocks of one page share a shell and an empty folder, in which `examples` are those of the repository. Each line of an output's block
must be found in the order given, and in it the parts between `…`. UNRACK names the command, which has its libraries beside it.
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
    """Runs the blocks of a page, and returns the first failure, if there is one."""
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
    """As `run`, but up to three times if answers were withheld because other work disturbed the measurement."""
    for _ in range(3):
        failure = run(page, unrack)
        if failure is None or "other work" not in failure:
            break
    return failure


def environment(folder, unrack):
    """Returns the variables with which a reader would have installed the command, and no pool of others."""
    return os.environ | {
        # A version manager's `python3` is a script, whose processes would be measured, too.
        "PATH": f"{unrack.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "python"),
        "UNRACK_RPC_LIBRARY": str(unrack.parent / "libunrack_rpc.so"),
        "XDG_RUNTIME_DIR": folder,
    }


def missing(wanted, output):
    """Returns the first part of the wanted output that does not follow the others in the output."""
    at = 0
    for part in (part.strip() for line in wanted.splitlines() for part in line.split("…")):
        found = output.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return None


def main():
    """Runs the pages that are named, or all."""
    unrack = Path(os.environ["UNRACK"]).resolve()
    pages = [Path(name) for name in sys.argv[1:]] or sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    failures = [(page, failure) for page in pages if (failure := run_in_quiet(page, unrack))]
    for page, failure in failures:
        print(f"{page}: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
