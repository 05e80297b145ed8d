"""Removal of what the theme brings and these pages do not use, so that the site stays small."""

import shutil
from pathlib import Path

from mkdocs.plugins import event_priority


# After the offline plugin, which has put the index of the search into a script.
@event_priority(-200)
def on_post_build(config, **_):
    """Deletes maps of sources, stemmers of other languages, the site's map, and the second copy of the search's index."""
    site = Path(config.site_dir)
    for unused in [*site.rglob("*.map"), *site.glob("sitemap.xml*"), site / "search" / "search_index.json"]:
        unused.unlink(missing_ok=True)
    shutil.rmtree(site / "assets" / "javascripts" / "lunr", ignore_errors=True)
