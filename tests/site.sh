#!/usr/bin/env bash
# Checks the documentation site: its pages load no data from a network, it is small, and its search works in pages opened as files.
# usage: site.sh FOLDER
set -euo pipefail
# shellcheck source=programs/skips.sh
. "$(dirname "$0")/programs/skips.sh"
cd "$1"

fail() {
	echo "site: $1" >&2
	exit 1
}

if outside=$(grep -rhoE '<(script|link|img|iframe)[^>]*(src|href)="?(https?:)?//[^">]*' --include='*.html' .); then
	fail "pages take from elsewhere: $outside"
fi

# The site must be small, because a wheel, whose size is limited to 15 MB, contains it.
limit=$((4 << 20))
packed=$(tar -cz . | wc -c)
((packed < limit)) || fail "it packs to $packed bytes, more than $limit"

if ! command -v chromium > /dev/null; then
	skip chromium site "the search is tried in chromium"
	exit
fi
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
# found WORD: prints the results of the site's search for a word.
found() {
	timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --user-data-dir="$profile" \
		--virtual-time-budget=10000 --dump-dom "file://$PWD/index.html?q=$1" 2> /dev/null \
		| grep -oP 'md-search-result__meta">\s*\K[^<]*' || true
}
[[ $(found userfaultfd) == *matching* ]] || fail "the search does not find a word that is there: $(found userfaultfd)"
[[ $(found quodlibetal) == "No matching documents"* ]] || fail "the search finds a word that is not there: $(found quodlibetal)"
echo "site: $packed bytes packed, search works"
