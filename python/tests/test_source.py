"""The package's source, on PYTHONPATH without its native module."""

import shutil
import subprocess
import sys
from pathlib import Path

import unrack


def test_a_source_without_the_native_module_says_so(tmp_path: Path) -> None:
    source = Path(unrack.__file__).parent
    copy = tmp_path / "unrack"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("_native*.so", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", "import unrack"],
        check=False,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"{copy} has no native module" in done.stderr
    assert "pip install" in done.stderr
