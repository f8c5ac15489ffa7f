"""What leaves no record is named in the certificate: io_uring, kernel AIO,
memory that processes share.

Would catch: a ring or shared memory that nobody mentions; a file that one
process maps for itself called shared.
"""
import subprocess

import pytest

from conftest import wait_until


def named(c, run):
    cert = c.json("path", run, status=(0, 1, 3)).get("certificate")
    return [line for line in cert["unseen"] if " i_unseen" in line or
            "/m1/" in line] if cert else []


def hold(c, build, run, *kinds):
    """A process that holds them until its input is closed. The child that
    "shared" makes has what was set up before."""
    proc = c.popen([build.program("i_unseen"), *kinds], name=run,
                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert proc.stdout.readline() == "ready\n"
    return proc


def release(c, proc, run):
    proc.stdin.close()
    assert proc.wait(120) == 0
    proc.stdout.close()
    c.wait_closed(run)


@pytest.mark.quick
def test_rings_and_memory(cluster, build):
    c = cluster()
    proc = hold(c, build, "held", "shared", "uring", "aio", "file")
    wait_until("all three are named", lambda: len(named(c, "held")) >= 3)
    release(c, proc, "held")
    # And after the end, by a slave that never saw the processes.
    assert c.machines[0].stop_slave() == 0
    c.machines[0].start_slave()
    c.wait_connected()
    lines = sorted(named(c, "held"))
    assert len(lines) == 3, lines
    assert lines[0].startswith("io_uring in /m1/i_unseen."), lines
    assert lines[1].startswith("kernel AIO in /m1/i_unseen."), lines
    assert lines[2].startswith("memory shared by /m1/i_unseen."), lines
    assert lines[2].count("/m1/i_unseen.") == 2 and "/dev/zero" in lines[2]


def test_by_syscall(cluster, build):
    """What comes by syscall() is noticed however short the process lives."""
    c = cluster()
    release(c, hold(c, build, "short", "uring-libc"), "short")
    (line,) = named(c, "short")
    assert line.startswith("io_uring in /m1/i_unseen."), line


def test_a_task_in_our_memory(cluster, build):
    """From a clone that shares memory and thread-local data on, nothing is
    recorded: the certificate says so. Would catch a silent end of the record."""
    c = cluster()
    release(c, hold(c, build, "task", "task"), "task")
    (line,) = named(c, "task")
    assert line.startswith("all since a task was cloned into the same memory "
                           "in /m1/i_unseen."), line


def test_nothing_of_the_kind(cluster):
    c = cluster()
    assert c.ipsrun(["sh", "-c", "seq 5 | sort -n; sleep 0.3"],
                    name="plain").returncode == 0
    c.wait_closed("plain")
    assert named(c, "plain") == []
