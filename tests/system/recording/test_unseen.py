"""What leaves no record is named in the certificate: io_uring, kernel AIO,
memory that processes share, runtimes with system calls of their own.

Would catch: a ring or shared memory that nobody mentions; a file that one
process maps for itself called shared.
"""
import json
import shutil
import subprocess

import pytest

import programs
import programs_more
from conftest import wait_until


def named(c, run):
    done = c.ipsq("path", run, "--format", "json")
    if done.returncode == 1 and "no run" in done.stderr:
        return []  # the slave has not found it yet
    assert done.returncode in (0, 1, 3), f"{done.stderr}{c.daemons()}"
    cert = json.loads(done.stdout).get("certificate")
    return [line for line in cert["unseen"] if " i_unseen" in line or
            "/m1/" in line] if cert else []


def hold(c, build, run, *kinds, program="i_unseen"):
    """A process that holds them until its input is closed. The child that
    "shared" makes has what was set up before."""
    proc = c.popen([build.program(program), *kinds], name=run,
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


def test_runtimes_with_calls_of_their_own(cluster, build):
    """OpenMP's threads wait for each other past the C library, and a program of
    Go makes all its calls so: would catch a path through either that nobody
    warns of, and a warning where OpenMP is linked but not used."""
    c = cluster()
    idle = hold(c, build, "idle", "idle-openmp", "uring-libc")
    proc = hold(c, build, "openmp", "openmp")
    wait_until("OpenMP is named", lambda: named(c, "openmp"))
    release(c, proc, "openmp")
    (line,) = named(c, "openmp")
    assert line.startswith("OpenMP (libgomp) in /m1/i_unseen."), line
    proc = hold(c, build, "go", program="i_go")
    wait_until("Go is named", lambda: named(c, "go"))
    release(c, proc, "go")
    (line,) = named(c, "go")
    assert line.startswith("Go's runtime in /m1/i_go."), line
    release(c, idle, "idle")
    assert len(named(c, "idle")) == 1


OPENMP = """#include <stdio.h>
int main(void)
{
    int sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(2)
    for (int i = 0; i < 100; i++)
        sum += i;
    printf("%d\\n", sum);
    return 0;
}
"""


def test_runtimes_of_short_programs(cluster, build, tmp_path):
    """They live for some ms, and nobody looks at them meanwhile. Would catch: such a runtime
    named only in programs that live for long; one that makes a run incomplete."""
    c = cluster()
    subprocess.run(["gcc", "-fopenmp", "-xc", "-", "-o", tmp_path / "sum"], input=OPENMP,
                   text=True, check=True)
    assert c.ipsrun([tmp_path / "sum"], name="openmp", check=True).stdout == "4950\n"
    c.ipsrun([tmp_path / "sum"], name="alone", env={"OMP_NUM_THREADS": "1",
                                                    "OMP_THREAD_LIMIT": "1"}, check=True)
    c.wait_closed("alone")
    assert named(c, "alone") == []
    release(c, hold(c, build, "go", program="i_go"), "go")
    for run, what in (("openmp", "OpenMP (libgomp) in /m1/sum."),
                      ("go", "Go's runtime in /m1/i_go.")):
        c.wait_closed(run)
        certificate = c.json("path", run)["certificate"]
        lines = [line for line in certificate["unseen"] if line.startswith(what)]
        assert len(lines) == 1 and certificate["complete"], certificate


@pytest.mark.skipif(not shutil.which("mpicc") or not shutil.which("mpirun"),
                    reason="not here: mpicc, mpirun")
def test_ranks_that_share_memory(cluster):
    """Ranks of one machine speak through shared memory unless they are told not
    to. Would catch an MPI program whose messages all went past us, and a
    certificate that does not say so."""
    c = cluster()
    prog = programs_more.mpi(programs.new_directory(), 8, "vader,self", "hold")
    proc = c.popen(prog.argv, name="ranks", stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE, text=True)
    wait_until("their memory is named", lambda: [
        line for line in named(c, "ranks")
        if line.startswith("memory shared by ") and "stencil" in line])
    out, _ = proc.communicate(timeout=120)
    prog.clean()
    assert proc.returncode == 0 and "exit 0" in out


def test_nothing_of_the_kind(cluster):
    c = cluster()
    assert c.ipsrun(["sh", "-c", "seq 5 | sort -n; sleep 0.3"],
                    name="plain").returncode == 0
    c.wait_closed("plain")
    assert named(c, "plain") == []
