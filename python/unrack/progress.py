"""Progress bars of long operations, drawn by tqdm on terminals and in notebooks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A function that takes the amount of work done and the total amount.
Progress = Callable[[int, int], object]


def is_watched() -> bool:
    """Returns whether a user can see a progress bar: stderr is a terminal, or the program runs in a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextmanager
def shown(what: str, unit: str, progress: bool | None, scale: float = 1.0) -> Iterator[Progress | None]:
    """Shows a progress bar during a `with` block. Yields a function that updates the bar, or None if no bar is drawn.

    The function takes the amount of work done and the total amount. One unit of the bar is `scale` units of work. If `progress`
    is None, the bar is drawn only if stderr is a terminal or the program runs in a notebook.
    """
    if progress is False or (progress is None and not is_watched()):
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(desc=what, unit=unit, leave=False) as bar:

        def show(done: int, of: int) -> None:
            bar.total = of / scale
            bar.n = done / scale
            bar.refresh()

        yield show
