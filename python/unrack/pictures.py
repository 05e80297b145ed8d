"""Pictures of run folders, for notebooks."""

import base64
import html
from collections.abc import Callable, Mapping
from pathlib import Path

from unrack.command import execute
from unrack.folders import Folder


def pictures_of(folder: Path) -> list[str]:
    """Returns the pictures of the folder's report, as SVG; of a folder that no report shows, such as a study's, its own."""
    if not any((folder / name).exists() for name in ("summary.json", "map.json", "sweep.json")):
        return [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.svg"))]
    with Folder() as drawn:
        execute(["report", f"--svg={drawn.path}", "--", str(folder)], quiet=True)
        return [path.read_text(encoding="utf-8") for path in sorted(drawn.path.glob("*.svg"))]


def saved_pictures(save: Callable[[Path], None]) -> list[str]:
    """Returns the pictures of a run that `save` writes to a folder."""
    with Folder() as above:
        folder = above.path / "run"
        save(folder)
        return pictures_of(folder)


def html_of_run(rows: Mapping[str, object], pictures: list[str]) -> str:
    """Returns a table of figures, and pictures, as HTML for a notebook."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    # As images: each picture has its own styles, which would meet those of the others.
    images = "".join(
        f"<div><img style='max-width:100%' src='data:image/svg+xml;base64,{_base64(one)}'></div>"
        for one in pictures
    )
    return f"<table>{cells}</table>{images}"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
