"""A tmpfs that fills up while a program is measured: the program does not
notice, what was recorded before is there, and the answer says how much is lost
and why. Would catch SIGBUS in the agent, and an answer that looks complete."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import clean_env

# Mounts a pool of 2 MiB that only it and its children see.
SCRIPT = r"""
set -e
mkdir pool state
mount -t tmpfs -o size=2m,mode=700 ips-test pool
ips-master --state "$PWD/state" & master=$!
while [ ! -S state/master.sock ]; do sleep 0.05; done
ips-slave --pool "$PWD/pool" --state "$PWD/state" --machine m1 & slave=$!
trap 'kill $slave $master; wait' EXIT
q() { ipsq --master "unix:$PWD/state/master.sock" "$@"; }
while ! q status | grep -q '^m1 *yes'; do sleep 0.05; done
# The pool fills when the program has begun, from outside.
ipsrun --quiet --pool "$PWD/pool" --state "$PWD/state" --machine m1 \
    --name full -- sh -c '
    echo begun > begun
    while [ ! -e filled ]; do sleep 0.05; done
    dd if=input bs=16 2>dd1 | dd bs=8 2>dd2 | md5sum' > output &
run=$!
while [ ! -e begun ]; do sleep 0.05; done
dd if=/dev/zero of=pool/filler bs=4k 2>dd || true
touch filled
status=0
wait $run || status=$?
echo $status > status
while ! q runs | grep -q '^full *no'; do sleep 0.05; done
status=0
q path full --format json > path || status=$?
echo $status > path-status
q path full > text || true
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_full_pool(build):
    top = pathlib.Path(tempfile.mkdtemp(prefix="ips-full-", dir="/tmp"))
    try:
        (top / "input").write_bytes(b"0123456789" * 20000)
        env = clean_env(
            PATH=f"{build.top}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", SCRIPT],
                              cwd=top, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=270)
        assert done.returncode == 0, done.stderr
        right = subprocess.run(["md5sum"], stdin=open(top / "input", "rb"),
                               capture_output=True, text=True).stdout
        assert (top / "output").read_text() == right
        assert (top / "status").read_text().strip() == "0"
        assert (top / "path-status").read_text().strip() == "3"
        answer = json.loads((top / "path").read_text())
        certificate = answer["certificate"]
        assert not certificate["complete"]
        lost = {l["cause"]: l["count"] for l in certificate["lost"]}
        # Two writes and reads of 16 bytes, 12500 of each and more.
        assert lost.get("pool full", 0) > 20000
        assert certificate["events"] > 20
        assert "damaged segments" not in lost, done.stderr
        assert answer["segments"]
        assert "events were lost: pool full" in (top / "text").read_text()
    finally:
        shutil.rmtree(top, ignore_errors=True)
