"""Every link of a page leads somewhere: files exist, and pages have the headings that links name."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Texts that are put into a page of another folder, from which their links lead.
PUT_INTO = {"studies/ddc/figures.md": "docs/results"}
FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?", re.MULTILINE)
HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"([^\"]+)\"")


def pages():
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, check=False)
    names = listed.stdout.decode().split("\0")[:-1] if listed.returncode == 0 else []
    if not names:
        skipped = {"target", "node_modules"}
        found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
        names = [str(p) for p in found if not any(part[0] == "." or part in skipped for part in p.parts)]
    return [ROOT / name for name in sorted(names) if (ROOT / name).exists()]


def prose(text):
    """Returns a page without code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "`code`", FENCED.sub("", text))


def slug(heading):
    """Returns the name of a heading in links, as GitHub and the site make it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")


def headings(text):
    text = FENCED.sub("", text)
    named = [slug(heading) for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", text, re.MULTILINE)]
    numbered = [
        f"{name}-{named[:n].count(name)}" if name in named[:n] else name for n, name in enumerate(named)
    ]
    return {*numbered, *re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", text)}


def flaws(page, text):
    """Yields what is wrong with the links of a page."""
    shown = prose(text)
    targets = [*INLINE.findall(shown), *REFERENCE.findall(shown), *HTML.findall(shown)]
    for target in targets:
        if re.match(r"[a-z][a-z0-9+.-]*:|//", target):
            continue
        name, _, anchor = target.partition("#")
        folder = PUT_INTO.get(str(page.relative_to(ROOT)))
        to = ((ROOT / folder if folder else page.parent) / name).resolve() if name else page
        if not to.is_relative_to(ROOT):
            yield f"{target} is outside the project"
        elif not to.exists():
            yield f"{target} does not exist"
        elif anchor and to.suffix == ".md" and anchor not in headings(to.read_text() if name else text):
            yield f"{target}: there is no such heading"


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        found = [
            f"{page.relative_to(ROOT)}: {flaw}" for page in pages() for flaw in flaws(page, page.read_text())
        ]
        self.assertEqual(found, [])

    def test_a_wrong_link_is_found(self):
        text = "[a](no.md) [b](traffic.md#no) [c](#here) [d](#there) `[e](f)` [g](https://h) [i](traffic.md#sizes)\n## Here\n"
        wrong = [
            "no.md does not exist",
            "traffic.md#no: there is no such heading",
            "#there: there is no such heading",
        ]
        self.assertEqual(list(flaws(ROOT / "docs" / "network.md", text)), wrong)


if __name__ == "__main__":
    unittest.main()
