"""The test hosts themselves: what runs in one is where it should be."""
import subprocess
import time

import pytest


@pytest.mark.quick
def test_hosts_have_address_and_clock(make_hosts):
    """Would catch offsets that do not arrive (the clock tests would then show
    nothing) and hosts that share a network."""
    hosts = make_hosts(3, offsets=[7200, 0, 3600])
    ask = ("import time,socket;s=socket.socket();s.bind((ADDRESS,4000));"
           "print(time.clock_gettime(time.CLOCK_MONOTONIC_RAW))")
    for host, offset in zip(hosts, (7200, 0, 3600)):
        code = ask.replace("ADDRESS", repr(host.address))
        before = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        said = float(subprocess.run(
            host.command(["/usr/bin/python3", "-c", code]),
            capture_output=True, text=True, check=True).stdout)
        after = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        # The namespace's offset is of the clock that is steered: some ms.
        assert before - 1 < said - offset < after + 1
    foreign = ask.replace("ADDRESS", repr(hosts[0].address))
    done = subprocess.run(hosts[1].command(["python3", "-c", foreign]),
                          capture_output=True, text=True)
    assert "Cannot assign" in done.stderr


@pytest.mark.quick
def test_wrong_usage_of_hosts():
    import conftest
    script = str(conftest.ROOT / "deploy" / "hosts")
    for words in ([], ["up"], ["up", "0"], ["run", "1"], ["up", "2", "--net"],
                  ["up", "2", "--prefix", "../x"], ["frob"]):
        done = subprocess.run([script, *words], capture_output=True, text=True)
        assert done.returncode == 2 and "usage:" in done.stderr, words
