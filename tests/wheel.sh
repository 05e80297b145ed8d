#!/usr/bin/env bash
# Tries a wheel in a minimal Debian that has Python but no build tools: installs it, compares fabrics for a program, runs the first
# notebook, and prints the duration of each step. Needs root, debootstrap, and a network for the downloads of debootstrap and pip.
# usage: wheel.sh WHEEL [SUITE]; MIRROR names a mirror of Debian
set -euo pipefail
wheel=$(realpath "$1")
suite=${2:-bookworm}
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
root=$folder/debian
trap 'umount -q "$root/dev" "$root/proc" || true; rm -rf --one-file-system "$folder"' EXIT

fail() {
	echo "wheel: $1" >&2
	exit 1
}

# timed WHAT COMMAND...: runs the command in the new system, and prints how long it took.
timed() {
	local what=$1 began=$EPOCHREALTIME
	shift
	chroot "$root" "$@" > "$folder/log" 2>&1 || fail "$what failed: $(tail -20 "$folder/log")"
	printf 'wheel: %-40s %6.1f s\n' "$what" "$(bc <<< "$EPOCHREALTIME - $began")"
}

debootstrap --variant=minbase --include=python3,python3-venv,bc "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" > "$folder/log" 2>&1 \
	|| fail "$(tail -5 "$folder/log")"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
chroot "$root" sh -c 'command -v cargo rustc cc' && fail "this Debian has a compiler"

# Download the packages outside of the new system, for the version of its interpreter.
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
mkdir "$root/house"
cp "$wheel" "$root/house"
.venv/bin/python -m pip download -q --disable-pip-version-check --only-binary :all: --python-version "$version" -d "$root/house" \
	tqdm nbmake ipykernel polars
cp examples/notebooks/1-far-memory.ipynb "$root"
cat > "$root/job.py" <<- 'END'
	memory = bytearray(60 << 20)
	for turn in range(4):
	    for place in range(0, len(memory), 4096):
	        memory[place] = (memory[place] + turn) % 251
	print(sum(memory[::4096]))
END

timed "a virtual environment" python3 -m venv /venv
timed "pip install of the wheel" /venv/bin/pip install -q --no-index --find-links /house "/house/$(basename "$wheel")"
timed "unrack doctor" /venv/bin/unrack doctor run sim rpc docs
timed "unrack compare, the main job" env PATH=/venv/bin:/usr/bin:/bin unrack compare --out /report -- python3 /job.py
[[ -s $root/report/report.html ]] || fail "there is no report"
timed "unrack docs" /venv/bin/unrack docs --print
timed "pip install of what notebooks need" /venv/bin/pip install -q --no-index --find-links /house nbmake ipykernel polars
timed "the first notebook" env PATH=/venv/bin:/usr/bin:/bin pytest -q -p no:cacheprovider --nbmake /1-far-memory.ipynb
timed "calls by reference from Python" /venv/bin/python -c 'from unrack import rpc'
