# mosquitto: a subscriber receives what publishers send, small and large.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
listen=$(port)
printf 'listener %s 127.0.0.1\nallow_anonymous true\nuser root\n' "$listen" > conf
start mosquitto -v -c conf
until_there mosquitto_pub -h 127.0.0.1 -p "$listen" -t up -m x
mosquitto_sub -h 127.0.0.1 -p "$listen" -t 'a/#' -q 1 -C 120 > got &
subscriber=$!
until_there grep -q "Received SUBSCRIBE" service.0.log
seq 100 | mosquitto_pub -h 127.0.0.1 -p "$listen" -t a/line -q 1 -l
for i in $(seq 20); do head -c 100000 /dev/zero | tr '\0' "${i:0:1}" | mosquitto_pub -h 127.0.0.1 -p "$listen" -t a/large -q 1 -s; done
wait "$subscriber"
md5sum < got
