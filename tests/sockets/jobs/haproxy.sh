# haproxy in front of two servers in Python: bodies of a megabyte over persistent connections.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
listen=$(port) one=$(port) two=$(port)
head -c 1000000 /dev/zero | tr '\0' 'x' > body
start python3 -m http.server --bind 127.0.0.1 "$one"
start python3 -m http.server --bind 127.0.0.1 "$two"
cat > haproxy.cfg << EOF
global
  maxconn 200
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend f
  bind 127.0.0.1:$listen
  default_backend b
backend b
  server one 127.0.0.1:$one
  server two 127.0.0.1:$two
EOF
start haproxy -db -f haproxy.cfg
until_there curl -sf "http://127.0.0.1:$listen/body" -o there
for _ in $(seq 10); do curl -s -m 10 "http://127.0.0.1:$listen/body" | md5sum; done
seq 20 | xargs -P 5 -I '{}' curl -s -m 20 -o 'o.{}' "http://127.0.0.1:$listen/body"
md5sum o.* | cut -d' ' -f1 | uniq -c
