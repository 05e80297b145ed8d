# Skips tests whose requirements are not met: each skip is reported, and is an error if the requirement was installed. This file is
# sourced, not run. It does the same as crates/foundation/testing/src/skips.rs, which documents the variables.
# shellcheck shell=bash

# skip NEEDED TEST WHY: reports that a test is skipped; fails if UNRACK_NO_SKIPS names the requirement.
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
