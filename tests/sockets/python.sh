#!/usr/bin/env bash
# Python's tests of all modules that use sockets. The interpreter is $PYTHON, or the first one that includes its tests.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# Modules that this version of Python does not have are skipped.
modules=(
    test_socket test_select test_selectors test_poll test_epoll test_devpoll test_kqueue test_socketserver test_asyncio test_ssl
    test_httplib test_http_cookiejar test_httpservers test_urllib2_localnet test_urllib2net test_wsgiref test_ftplib test_poplib
    test_imaplib test_nntplib test_smtplib test_smtpd test_smtpnet test_telnetlib test_asyncore test_asynchat test_xmlrpc
    test_docxmlrpc test_robotparser test_subprocess test_signal test_threadsignals test_eintr test_fork1 test_wait3 test_wait4
    test_os test_posix test_pty test_fcntl test_ioctl test_mmap test_openpty test_io test_largefile test_fileio test_popen
    test_logging test_concurrent_futures test_multiprocessing_fork test_multiprocessing_spawn test_multiprocessing_forkserver
    test_multiprocessing_main_handling test_timeout test_syslog
)

interpreter() {
    local python
    for python in "${PYTHON:-python3}" /usr/bin/python3; do
        if "$python" -c 'import test.test_socket' 2> /dev/null; then
            "$python" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

case ${1:?a file for results, --needs or --prepare} in
    --needs)
        if interpreter > /dev/null; then exit 0; fi
        skip python-tests tests/sockets/python "no Python here has its own tests; Debian's are in libpython3.11-testsuite"
        exit 1
        ;;
    --prepare) exit 0 ;;
esac

results=$(realpath "$1")
python=$(interpreter)
mapfile -t modules < <("$python" -c '
import importlib.util, sys
for name in sys.argv[1:]:
    if importlib.util.find_spec(f"test.{name}"):
        print(name)' "${modules[@]}")

export PYTHONDONTWRITEBYTECODE=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Tests of VSOCK wait forever on a virtual machine whose host does not answer.
"$python" -m test -j 2 --timeout 300 --ignore '*VSOCK*' --junit-xml "$folder/tests.xml" "${modules[@]}" < /dev/null \
    > "$results.out" 2>&1 || true

# The last line of each module's output also counts, because the XML file does not list subtests, leaks and crashes.
"$python" - "$folder/tests.xml" "$results.out" > "$results" << 'END'
import re, sys
from xml.etree import ElementTree

for test in ElementTree.parse(sys.argv[1]).iter("testcase"):
    kinds = {child.tag for child in test}
    word = "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
    print(word, test.get("name"))
for line in open(sys.argv[2], errors="replace"):
    if found := re.search(r"\[ *\d+/\d+(?:/\d+)?\] (test_[\w.]+) (\w.*)", line):
        module, said = found.groups()
        words = {"passed": "pass", "skipped": "skip", "ran no tests": "skip", "run no tests": "skip"}
        print(words.get(re.split(r" \(| --", said)[0].strip(), "fail"), "module", module)
END
