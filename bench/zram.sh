#!/usr/bin/env bash
# Measures the peer: the cost of a page fault when the kernel swaps to zram under a memory cgroup.
#
#   zram.sh [MEMORY] [LOCAL%] [touch options...]       (default 256MiB 25%)
#
# Runs `unrack-stress touch` with a cgroup limit of LOCAL% of MEMORY, and with a new zram device as the only swap that it
# can use. Read-ahead is off by default ($PAGE_CLUSTER is the binary logarithm of the pages that are read at once, default 0).
# Prints one line of JSON, or exits with status 3 and the reason if the machine does not meet a requirement. All changes to the
# system are undone on any exit. The written words are highly compressible, which favours zram.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
memory=${1:-256MiB}
percent=${2:-25%}
shift $(($# < 2 ? $# : 2))

lacks() {
    echo "zram.sh: $1" >&2
    exit 3
}

stress=${UNRACK_STRESS:-}
for file in "$root"/target/{release,ci}/unrack-stress; do
    if [[ -z $stress && -x $file ]]; then stress=$file; fi
done
[[ -n $stress ]] || lacks "no unrack-stress binary: run make build"
[[ $memory =~ ^[0-9]+MiB$ && $percent =~ ^[0-9]+%$ ]] || { echo "zram.sh: sizes as 256MiB and 25%" >&2; exit 2; }
mib=${memory%MiB}
limit=$((mib * 1024 * 1024 * ${percent%\%} / 100))

((EUID == 0)) || lacks "only root can make swap and cgroups: run it with sudo"
[[ -e /sys/class/zram-control/hot_add ]] || modprobe zram 2> /dev/null || true
[[ -e /sys/class/zram-control/hot_add ]] || lacks "the kernel has no zram (module or built-in)"

# Uses version 1 or version 2 of the memory controller, whichever is mounted.
if [[ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]]; then
    version=1 group=/sys/fs/cgroup/memory/unrack-bench-$$
elif grep -qw memory /sys/fs/cgroup/cgroup.controllers 2> /dev/null; then
    version=2 group=/sys/fs/cgroup/unrack-bench-$$
else
    lacks "no memory cgroup is mounted"
fi

device='' cluster=$(cat /proc/sys/vm/page-cluster)
clean() {
    trap - EXIT INT TERM
    echo "$cluster" > /proc/sys/vm/page-cluster || true
    # The group has no processes left, because only this script starts processes in it.
    if [[ -d $group ]]; then rmdir "$group" || true; fi
    if [[ -n $device ]]; then
        swapoff "/dev/zram$device" 2> /dev/null || true
        echo 1 > "/sys/block/zram$device/reset" || true
        echo "$device" > /sys/class/zram-control/hot_remove || true
    fi
}
trap clean EXIT
trap 'exit 1' INT TERM

device=$(cat /sys/class/zram-control/hot_add) || lacks "no zram device can be added"
echo $((mib * 2))M > "/sys/block/zram$device/disksize"
for _ in {1..50}; do
    if [[ -b /dev/zram$device ]]; then break; fi
    sleep 0.1
done
mkswap "/dev/zram$device" > /dev/null
swapon -p 32767 "/dev/zram$device" || lacks "swap cannot be switched on here"
echo "${PAGE_CLUSTER:-0}" > /proc/sys/vm/page-cluster

mkdir "$group"
if ((version == 1)); then
    echo "$limit" > "$group/memory.limit_in_bytes"
    echo 200 > "$group/memory.swappiness"
else
    grep -qw memory /sys/fs/cgroup/cgroup.subtree_control || echo +memory > /sys/fs/cgroup/cgroup.subtree_control
    echo "$limit" > "$group/memory.max"
fi

# The subshell moves itself into the group and then executes the program, which is the only process in the group.
(
    echo "$BASHPID" > "$group/cgroup.procs"
    exec "$stress" touch --memory "$memory" --json "$@"
)
