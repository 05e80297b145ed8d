"""Entries of the navigation that end in a slash, replaced by the pages of that folder in order of their names."""

from mkdocs.plugins import event_priority


# After all hooks that add pages.
@event_priority(-50)
def on_files(files, config):
    """Puts the pages of folders into the navigation."""
    pages = sorted(file.src_uri for file in files.documentation_pages())
    config.nav = expanded(config.nav, pages)
    return files


def expanded(entry, pages):
    """Returns an entry of the navigation in which folders are lists of their pages."""
    if isinstance(entry, list):
        return [expanded(one, pages) for one in entry]
    if isinstance(entry, dict):
        return {title: expanded(inside, pages) for title, inside in entry.items()}
    return [page for page in pages if page.startswith(entry)] if entry.endswith("/") else entry
