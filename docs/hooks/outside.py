"""Files outside docs/ as pages of the site: the project's own texts, the examples, and each file that a page links to.

Links in the sources are those of the repository, so that they work there too; here they are led to the site's pages.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
TEXTS = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    ".github/CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/SECURITY.md": "security.md",
    "examples": "examples.md",
}
LANGUAGES = {
    ".h": "c",
    ".py": "python",
    ".rs": "rust",
    ".sh": "sh",
    ".md": "markdown",
    ".sv": "systemverilog",
}
NOT_SOURCES = {"target", "__pycache__", "Cargo.lock"}
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")

# Path in the repository of each page's source, and the reverse.
page_of: dict[str, str] = {}
source_of: dict[str, str] = {}


def on_files(files, config):
    """Adds pages for files outside docs/, and for those that they link to."""
    page_of.clear()
    source_of.clear()
    waiting = []
    for file in files.documentation_pages():
        name(f"docs/{file.src_uri}", file.src_uri)
        waiting.append((f"docs/{file.src_uri}", file.content_string))
    added = list(TEXTS)
    for source, page in TEXTS.items():
        name(source, page)
    while waiting or added:
        if added:
            source = added.pop()
            text = page_text(source)
            files.append(File.generated(config, page_of[source], content=text))
        else:
            source, text = waiting.pop()
        for target in linked(source, text):
            if target not in page_of and not target.startswith("docs/"):
                name(target, f"files/{target}{'/index' if (ROOT / target).is_dir() else ''}.md")
                added.append(target)
    return files


def name(source, page):
    """Notes which page shows a source."""
    page_of[source] = page
    source_of[page] = source


def on_page_markdown(markdown, page, **_):
    """Leads links between files of the repository to the site's pages and pictures."""
    source = source_of.get(page.file.src_uri)
    return markdown if source is None else LINK.sub(lambda link: led(link[0], source), markdown)


def led(link, source):
    """Returns the site's link for one between files of the repository."""
    target = resolved(link, source)
    if target in page_of:
        target = page_of[target]
    elif target.startswith("docs/"):
        target = target.removeprefix("docs/")
    else:
        return link
    return posixpath.relpath(target, posixpath.dirname(page_of[source]) or ".")


def resolved(link, source):
    """Returns the path in the repository that a link names."""
    folder = source if (ROOT / source).is_dir() else posixpath.dirname(source)
    return posixpath.normpath(posixpath.join(folder, link))


def linked(source, text):
    """Returns the files of the repository that a text links to."""
    targets = (resolved(link, source) for link in LINK.findall(text))
    return [target for target in targets if not target.startswith("..") and (ROOT / target).exists()]


def page_text(source):
    """Returns the text of a source's page: itself, a list of a folder's files, or the file in a block of code."""
    path = ROOT / source
    if path.is_dir():
        return folder_text(path, source)
    text = path.read_text(errors="replace")
    if source in TEXTS:
        return text
    language = LANGUAGES.get(path.suffix, path.suffix.removeprefix("."))
    head = f"---\ntitle: {path.name}\nsearch: {{exclude: true}}\n---\n# `{source}`\n\n"
    return f"{head}``````{language}\n{text.rstrip()}\n``````\n"


def folder_text(path, source):
    """Returns a list of the files in a folder, each with the first comment that it begins with."""
    found = (file for file in sorted(path.rglob("*")) if file.is_file())
    names = [file.relative_to(path) for file in found if not NOT_SOURCES.intersection(file.parts)]
    rows = [f"| [{name}]({name}) | {first_comment(path / name)} |" for name in names]
    readme = path / "README.md"
    head = readme.read_text() if readme.exists() else f"# {source.capitalize()}\n"
    return "\n".join([head, "| file | is |", "|---|---|", *rows]) + "\n"


def first_comment(file):
    """Returns the first sentence of the comment or docstring that a file begins with."""
    lines = []
    for line in file.read_text(errors="replace").splitlines():
        text = re.match(r'(?:#(?![!:\[])|//!|/\*|"""|>)\s?(.*)', line)
        if text is None and (lines or not line.startswith("#!")):
            break
        if text:
            lines.append(text[1].removesuffix("*/").strip('" '))
    sentence = " ".join(lines).strip()
    return sentence.split(". ")[0].rstrip(".:").replace("|", r"\|").replace("`", "")
