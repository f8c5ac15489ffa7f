"""Whoever asks right after a program ended means that program. With resident
daemons the run was told to the master a tenth of a second later: a question by
name failed, and one without a name was answered for the run before."""
import signal
import threading

import pytest

pytestmark = pytest.mark.quick


def test_question_right_after_the_run(cluster):
    c = cluster(["m1"])
    for i in range(8):
        c.ipsrun(["true"], name=f"run{i}", check=True)
        assert c.json("path")["run"] == f"run{i}"
        c.ipsrun(["true"], name=f"named{i}", check=True)
        assert c.json("path", f"named{i}")["run"] == f"named{i}"


def test_question_before_the_slave_has_seen_the_run(cluster):
    """The slave is stopped over the run, and goes on when the question was asked.
    Would catch: an answer for the newest run that the master happens to know."""
    c = cluster(["m1"])
    c.ipsrun(["true"], name="before", check=True)
    c.wait_closed("before")
    slave = c.machines[0].slave
    for i, asked in enumerate([[], ["after1"]]):
        slave.send_signal(signal.SIGSTOP)
        c.ipsrun(["true"], name=f"after{i}", check=True)
        threading.Timer(0.3, slave.send_signal, [signal.SIGCONT]).start()
        assert c.json("path", *asked, status=(0, 3))["run"] == f"after{i}"
