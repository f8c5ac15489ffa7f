"""Threads that end as the process does; and that begin in a signal's handler."""
import subprocess


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


PENDING = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static void handle(int sig) { (void)!write(1, "handled", sig ? 7 : 0); }
static void *work(void *arg) { return arg; }
int main(void)
{
    sigset_t none, usr1;
    pthread_attr_t attr;
    pthread_t t;
    signal(SIGUSR1, handle);
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    kill(getpid(), SIGUSR1);
    pthread_attr_init(&attr);
    pthread_attr_setsigmask_np(&attr, &none);
    return pthread_create(&t, &attr, work, NULL) || pthread_join(t, NULL);
}
"""


def test_thread_that_begins_in_a_handler(cluster, tmp_path):
    """A pending signal is handled before the thread's own function. Would catch: a stream
    that begins twice, whose first segment is then missed; a thread without its maker."""
    c = cluster()
    subprocess.run(["gcc", "-pthread", "-xc", "-", "-o", tmp_path / "pending"], input=PENDING,
                   text=True, check=True)
    done = c.ipsrun([tmp_path / "pending"], name="r", check=True)
    assert done.stdout == "handled"
    c.wait_closed("r")
    assert c.json("path", "r")["certificate"]["complete"]
    nodes = {n["id"]: n for n in c.graph("r")}
    thread = [n for n in nodes.values() if n["kind"] == "START" and n["tid"] != n["pid"]]
    assert len(thread) == 1, thread
    assert nodes[thread[0]["xpred"]]["kind"] == "FORK"
