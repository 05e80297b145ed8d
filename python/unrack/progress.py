"""Progress of long work, as tqdm shows it: on terminals and in notebooks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Takes the work done, and all work.
Progress = Callable[[int, int], object]


def is_watched() -> bool:
    """Returns whether someone watches: stderr is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextmanager
def shown(what: str, unit: str, progress: bool | None, scale: float = 1.0) -> Iterator[Progress | None]:
    """Gives a function that takes the work done and all work. `scale` is what one unit of the bar has of them.

    With `progress` None, a bar is drawn if someone watches.
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
