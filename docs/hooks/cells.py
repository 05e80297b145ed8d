"""Text for cells of Markdown tables, and the command that describes itself."""

import json
import os
import re
import subprocess
from pathlib import Path

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[2]


def said_by_unrack(*arguments):
    """Returns the JSON that the command prints. UNRACK names it; by default, it is the built one."""
    command = Path(os.environ.get("UNRACK", ROOT / "target" / "release" / "unrack"))
    try:
        done = subprocess.run([command, *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise PluginError(
            f"the reference pages are made by the command: build it, or name it by UNRACK ({why})"
        ) from why
    return json.loads(done.stdout)


def cell(text):
    """Returns a text of help as a cell: one line, without the marks of rustdoc, and with HTML's characters shown as they are."""
    one_line = " ".join((text or "").split()).replace("[`", "`").replace("`]", "`")
    between = re.split(r"(`[^`]*`)", one_line)
    shown = (
        part if part.startswith("`") else part.replace("<", "&lt;").replace("*", r"\*") for part in between
    )
    return "".join(shown).replace("|", r"\|")


def table(header, rows):
    """Returns a table, or nothing without rows."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n" if rows else ""


def sentence(text):
    """Returns a text of help as a sentence."""
    shown = cell(text)
    return f"{shown[:1].upper()}{shown[1:]}{'' if shown.endswith(('.', ')')) else '.'}" if shown else ""
