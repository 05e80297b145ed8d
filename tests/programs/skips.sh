# Skips: said where they are seen, and refused where the thing was installed. Sourced, not run.
# The same as crates/foundation/testing/src/skips.rs, which says what the variables mean.
# shellcheck shell=bash

# skip NEEDED TEST WHY: says so; fails if UNRACK_NO_SKIPS names what is needed.
skip() {
    local line
    line="$1: $2: $(echo "$3" | tr -s '[:space:]' ' ')"
    if [[ ,${UNRACK_NO_SKIPS:-}, == *,$1,* ]]; then
        echo "$line; but UNRACK_NO_SKIPS says that it is installed" >&2
        exit 1
    fi
    if [[ -n ${UNRACK_SKIPS:-} ]]; then
        echo "$line" >> "$UNRACK_SKIPS"
    else
        echo "skipped: $line" >&2
    fi
}
