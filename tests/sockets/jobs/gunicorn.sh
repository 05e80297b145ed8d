# gunicorn with forked workers, and with threads.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
cat > app.py << 'EOF'
import hashlib

def app(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [hashlib.md5(body).hexdigest().encode() + b"\n"] + [b"x" * 1000] * 100
EOF
head -c 300000 /dev/zero > body
for kind in sync gthread; do
    listen=$(port)
    start gunicorn -b "127.0.0.1:$listen" -w 2 -k "$kind" --threads 2 app:app
    until_there curl -sf "http://127.0.0.1:$listen/" -o there
    for _ in $(seq 10); do curl -s -m 10 --data-binary @body "http://127.0.0.1:$listen/" | md5sum; done
done
