"""Draws the pictures of run folders, for notebooks."""

import base64
import html
from collections.abc import Callable, Mapping
from pathlib import Path

from unrack.command import execute
from unrack.folders import Folder


def pictures_of(folder: Path) -> list[str]:
    """Returns the pictures of a run folder's report as SVG.

    For a folder that `unrack report` does not support, such as the folder of a study, returns the SVG files in it.
    """
    if not any((folder / name).exists() for name in ("summary.json", "map.json", "sweep.json")):
        return [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.svg"))]
    with Folder() as drawn:
        execute(["report", f"--svg={drawn.path}", "--", str(folder)], quiet=True)
        return [path.read_text(encoding="utf-8") for path in sorted(drawn.path.glob("*.svg"))]


def saved_pictures(save: Callable[[Path], None]) -> list[str]:
    """Returns the pictures, as SVG, of a run that `save` writes to a temporary folder."""
    with Folder() as above:
        folder = above.path / "run"
        save(folder)
        return pictures_of(folder)


def html_of_run(rows: Mapping[str, object], pictures: list[str]) -> str:
    """Returns HTML for a notebook: a table of named figures, then the pictures."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    # Embedded as images, because inline SVGs would share their styles with each other.
    images = "".join(
        f"<div><img style='max-width:100%' src='data:image/svg+xml;base64,{_base64(one)}'></div>"
        for one in pictures
    )
    return f"<table>{cells}</table>{images}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
