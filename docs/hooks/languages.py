"""References of the Python package and of the C header."""

from cells import ROOT
from mkdocs.structure.files import File

HEADER = ROOT / "crates" / "pool" / "rpc-c" / "include" / "unrack_rpc.h"
PACKAGE = ROOT / "python" / "unrack"
C = """# C

The header `unrack_rpc.h`, which `make install` installs. A program is built by

    cc hello.c $(pkg-config --cflags --libs unrack-rpc)

"""


def on_files(files, config):
    """Adds the pages."""
    pages = {"python": python_text(), "c": f"{C}```c\n{HEADER.read_text()}```\n"}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def python_text():
    """Returns the page of the package: each public module, whose docstrings mkdocstrings reads."""
    found = [*PACKAGE.glob("*.py"), *PACKAGE.glob("*/__init__.py")]
    names = sorted({".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts) for module in found})
    public = (name.removesuffix(".__init__") for name in names if "._" not in name.removesuffix(".__init__"))
    return "# Python\n\n" + "\n".join(f"::: {name}\n" for name in public)
