# Shared by the scripts in this folder: the folder for downloads and builds, and the functions that download. This file is
# sourced, not run.
#
#   UNRACK_SUITES  folder for sources and their builds, kept between runs
#
# Each script is a test suite. `NAME.sh --needs` succeeds if the suite can run on this machine, and otherwise prints the reason.
# `NAME.sh --prepare` downloads and builds. `NAME.sh FILE` runs all tests, and writes a line `pass NAME`, `fail NAME` or `skip NAME`
# for each test to FILE; the output of the tests goes to FILE.out. A failed test is not a failure of the script.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
suites=${UNRACK_SUITES:-$root/target/sockets-suites}
export LC_ALL=C.UTF-8 TERM=dumb
# shellcheck source=../programs/skips.sh
source "$root/tests/programs/skips.sh"

# needs SUITE PROGRAM...: succeeds if all these programs exist, and otherwise names the first that is missing.
needs() {
    local suite=$1 program
    shift
    for program in "$@"; do
        if ! command -v "$program" > /dev/null; then
            skip "$program" "tests/sockets/$suite" "there is no $program; see the packages of sockets-suites in make/soak.mk"
            return 1
        fi
    done
}

# archives: prints the addresses of the Debian archives that this machine's apt uses.
archives() {
    # shellcheck disable=SC2016  # these are apt's own names
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' | awk '$1 == "Debian" && !seen[$2]++ { print $2 }'
}

# fetched PATH SHA256: ensures that a file of Debian's archive is in the folder. The file is downloaded from the archives of this
# machine's apt, without a change to apt's lists. On a machine without apt, the user may put the file there.
fetched() {
    local file=$suites/${1##*/} archive
    mkdir -p "$suites"
    if [[ -e $file ]] && sha256sum --status -c <<< "$2  $file"; then return; fi
    while read -r archive; do
        if /usr/lib/apt/apt-helper -o APT::Sandbox::User=root \
            download-file "${archive%/}/$1" "$file.part" "SHA256:$2" > "$file.log" 2>&1; then
            mv "$file.part" "$file"
            rm -f "$file.log"
            return
        fi
    done < <(archives)
    cat "$file.log" >&2 || true
    echo "tests/sockets: $1 cannot be fetched from Debian's archive; put it into $suites" >&2
    return 1
}

# unpacked FOLDER ARCHIVE: ensures that the archive's folder exists and is complete.
unpacked() {
    if [[ -d $suites/$1 ]]; then return; fi
    rm -rf "$suites/.part" && mkdir "$suites/.part"
    tar -C "$suites/.part" -xf "$suites/$2"
    mv "$suites/.part/$1" "$suites/$1"
    rmdir "$suites/.part"
}
