# sshd accepts three logins by key; one of them passes a megabyte in each direction.
# shellcheck shell=bash
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh" "$1"
listen=$(port)
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f user
chmod 700 .
cat > sshd_config << EOF
Port $listen
ListenAddress 127.0.0.1
HostKey $PWD/host
AuthorizedKeysFile $PWD/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
EOF
start /usr/sbin/sshd -D -e -f sshd_config
login=(ssh -q -F none -i user -p "$listen" -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null 127.0.0.1)
until_there "${login[@]}" true
for i in 1 2 3; do "${login[@]}" echo "login $i" || echo "refused $i"; done
head -c 1000000 /dev/zero | "${login[@]}" md5sum || true
"${login[@]}" head -c 1000000 /dev/zero | md5sum
