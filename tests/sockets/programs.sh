#!/usr/bin/env bash
# Runs a short job of well-known services natively and below `unrack sockets`, and compares the output.
#
#   programs.sh [NAME...]    NAME of a program listed below (default: all)
#
# A job must not print text that depends on time. Prints one line per program: "same", "differs", or the missing requirement. The exit
# status is 0 only if no program differs. If none of a program's connections was carried by reference, its result only shows that the
# program runs. Packages are installed with UNRACK_INSTALL=1 (Debian, as root). The binary is $UNRACK, or target/release/unrack without
# that variable. $UNRACK_TIMEOUT ends a job that hangs (seconds, default 60).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
unrack=$(realpath "${UNRACK:-$here/../../target/release/unrack}")
[[ -x $unrack ]] || { echo "programs.sh: no unrack binary; run make build, or name one in UNRACK" >&2; exit 3; }
export LC_ALL=C.UTF-8
folder=$(mktemp -d)
chmod 711 "$folder"
trap 'rm -rf "$folder"' EXIT

declare -A needs=(
    [nginx]="nginx php-fpm curl" [sshd]="openssh-server openssh-client" [erlang]="erlang-base" [haproxy]="haproxy curl python3"
    [postgres]="postgresql" [mariadb]="mariadb-server" [mosquitto]="mosquitto mosquitto-clients" [node]="nodejs"
    [gunicorn]="gunicorn curl" [java]="default-jdk-headless"
)
names=("$@")
((${#names[@]})) || names=(nginx sshd erlang haproxy postgres mariadb mosquitto node gunicorn java)
for name in "${names[@]}"; do
    [[ -n ${needs[$name]:-} ]] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
done

declare -A commands=(
    [nginx]="nginx curl" [sshd]="/usr/sbin/sshd ssh" [erlang]="escript" [haproxy]="haproxy curl python3" [postgres]="psql"
    [mariadb]="mariadbd mariadb" [mosquitto]="mosquitto mosquitto_pub" [node]="node" [gunicorn]="gunicorn curl" [java]="java"
)

installed() {
    local command
    for command in ${commands[$1]}; do
        command -v "$command" > /dev/null || return 1
    done
    [[ $1 != nginx ]] || compgen -c php-fpm > /dev/null
}

same=0 differs=0 missing=0
for name in "${names[@]}"; do
    if ! installed "$name" && [[ ${UNRACK_INSTALL:-0} == 1 ]]; then
        # shellcheck disable=SC2086  # a list of packages
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ${needs[$name]} > /dev/null 2>&1 || true
    fi
    if ! installed "$name"; then
        echo "$name: missing, install ${needs[$name]}"
        missing=$((missing + 1))
        continue
    fi
    job=$here/jobs/$name.sh
    for way in native reference; do
        mkdir -p "$folder/$name.$way"
        run=(bash "$job" "$folder/$name.$way")
        if [[ $way == reference ]]; then run=("$unrack" sockets --after 1 -- "${run[@]}"); fi
        # PostgreSQL does not run as root, and connections pass by reference only between processes of one user.
        if [[ $name == postgres ]] && ((EUID == 0)); then
            # `unrack sockets` rejects a socket in a folder that other users can write to.
            chown postgres "$folder/$name.$way"
            run=(setpriv --reuid postgres --regid postgres --clear-groups env -u XDG_RUNTIME_DIR "TMPDIR=$folder/$name.$way" "${run[@]}")
        fi
        # Run the job in a new process group, so that its leftover processes can be ended too.
        timeout -k 5 "${UNRACK_TIMEOUT:-60}" setsid -w "${run[@]}" > "$folder/$name.$way.out" 2> "$folder/$name.$way.err" \
            < /dev/null || echo "status $?" >> "$folder/$name.$way.out"
    done
    carried=$(grep -oE '^unrack: [0-9]+ connections? by reference' "$folder/$name.reference.err" | grep -oE '[0-9]+' || echo 0)
    if cmp -s "$folder/$name.native.out" "$folder/$name.reference.out"; then
        echo "$name: same, $(wc -l < "$folder/$name.native.out") lines, $carried connections by reference"
        same=$((same + 1))
    else
        echo "$name: differs, $carried connections by reference"
        diff "$folder/$name.native.out" "$folder/$name.reference.out" | head -20 | sed 's/^/  /' || true
        tail -5 "$folder/$name.reference.err" | sed 's/^/  error: /'
        differs=$((differs + 1))
    fi
done
echo "$same the same, $differs differ, $missing missing"
((differs == 0))
