"""Threads that end as the process does."""


def test_an_ended_thread_is_not_silent(build, cluster):
    """A thread that has recorded its end may be in /proc/self/task for a while
    yet. Would catch that the process takes it for one that never recorded, and
    adds a second thread with the same CPU."""
    c = cluster()
    done = c.ipsrun([build.program("i_late_thread")], name="late")
    assert done.returncode == 0
    c.wait_closed("late")
    born = [n for n in c.graph("late") if n["kind"] == "START"]
    assert len(born) == 2
    assert len({n["tid"] for n in born}) == 2
