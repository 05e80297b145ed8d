# nginx passes requests to php-fpm over a Unix socket. Answers have 2 MB; requests run one after another and concurrently.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
listen=$(port)
# shellcheck disable=SC2016  # the variable is PHP's own
echo '<?php echo str_repeat("0123456789abcdef", (int)($_GET["n"] / 16));' > a.php
cat > fpm.conf << EOF
error_log=$PWD/fpm.log
daemonize=no
[www]
user=nobody
group=nogroup
listen=$PWD/fpm.sock
listen.mode=0666
pm=static
pm.max_children=2
EOF
cat > nginx.conf << EOF
daemon off; pid $PWD/nginx.pid; error_log $PWD/nginx.log; worker_processes 2; user root;
events { worker_connections 256; }
http { access_log off; client_body_temp_path $PWD/body; fastcgi_temp_path $PWD/fastcgi;
  upstream php { server unix:$PWD/fpm.sock; keepalive 4; }
  server { listen 127.0.0.1:$listen; root $PWD;
    location ~ \.php\$ { include /etc/nginx/fastcgi_params; fastcgi_pass php; fastcgi_keep_conn on;
      fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name; } } }
EOF
start "$(compgen -c php-fpm | sort -V | tail -1)" -R -F -y fpm.conf
start nginx -p "$PWD" -c nginx.conf
until_there curl -sf "http://127.0.0.1:$listen/a.php?n=16"
for _ in $(seq 12); do
    curl -s -m 10 "http://127.0.0.1:$listen/a.php?n=2000000" | md5sum
done
seq 24 | xargs -P 6 -I '{}' curl -s -m 20 -o 'o.{}' "http://127.0.0.1:$listen/a.php?n=2000000"
md5sum o.* | cut -d' ' -f1 | uniq -c
