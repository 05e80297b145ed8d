"""Names in the text of a notebook are those of its code, which `make test` runs."""

import json
import re
import unittest
from pathlib import Path

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def unknown(cells):
    """Returns the names of fields that the text has and the code does not."""
    text, code = (
        "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == kind)
        for kind in ("markdown", "code")
    )
    return {name for name in re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", text) if name not in code}


class Notebooks(unittest.TestCase):
    def test_fields_that_a_text_names_are_used_by_the_code(self):
        self.assertGreater(len(NOTEBOOKS), 3)
        for notebook in NOTEBOOKS:
            self.assertEqual(unknown(json.loads(notebook.read_text())["cells"]), set(), notebook.name)

    def test_a_field_that_does_not_exist_is_found(self):
        text = {"cell_type": "markdown", "source": ["`slowdown_measured` and `slowdown_replay`"]}
        code = {"cell_type": "code", "source": ["row['slowdown_replay']"]}
        self.assertEqual(unknown([text, code]), {"slowdown_measured"})


if __name__ == "__main__":
    unittest.main()
