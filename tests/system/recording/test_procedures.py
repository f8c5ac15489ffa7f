"""`ipsq procedures` and the places of events, from programs that the test
compiles: shares with their intervals, names from debug information, symbol
tables and nothing, in processes, libraries, children and on two machines.
"""
import contextlib
import os
import shutil
import sqlite3
import subprocess

import pytest

SOURCE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
volatile double sink;
static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static inline __attribute__((always_inline)) double kernel(double x)
{
    for (int i = 0; i < 100; i++)
        x = x * 1.0000001 + 0.5; /* KERNEL LINE */
    return x;
}
__attribute__((noinline)) void heavy(long n) /* HEAVY */
{
    double s = 0;
    while (n--)
        s = kernel(s); /* HEAVY LINE */
    sink = s;
}
__attribute__((noinline)) void light(long n) /* LIGHT */
{
    double s = 0;
    while (n--)
        for (int i = 0; i < 100; i++)
            s = s * 1.0000001 + 0.25;
    sink = s;
}
__attribute__((noinline)) void wait_here(int fd) /* WAIT */
{
    char c;
    if (read(fd, &c, 1) != 1) /* WAIT LINE */
        abort();
    sink = 1;
}
static void split(long ms)
{
    long h = 0, l = 0, t;
    while (h + l < ms * 1000000) {
        t = now();
        heavy(3000);
        h += now() - t;
        t = now();
        light(1000);
        l += now() - t;
    }
    printf("%ld %ld\n", h, l);
}
int main(int argc, char **argv)
{
    long ms = argc > 2 ? atol(argv[2]) : 0;
    if (strcmp(argv[1], "split") == 0) {
        split(ms);
    } else if (strcmp(argv[1], "wait") == 0) {
        int fd[2];
        if (pipe(fd) < 0)
            return 1;
        if (fork() == 0) {
            for (int i = 0; i < 3; i++) {
                usleep(100000);
                if (write(fd[1], "x", 1) != 1)
                    return 1;
            }
            return 0;
        }
        for (int i = 0; i < 3; i++)
            wait_here(fd[0]);
        wait(NULL);
    } else if (strcmp(argv[1], "child") == 0) {
        void *lib = dlopen(argv[3], RTLD_NOW);
        void (*work)(long) = lib ? (void (*)(long))dlsym(lib, "library_work")
                                 : NULL;
        if (!work)
            return 1;
        if (fork() == 0) {
            long end = now() + ms * 1000000;
            while (now() < end)
                work(1000);
            return 0;
        }
        wait(NULL);
    }
    return 0;
}
"""
LIBRARY = r"""
extern volatile double result;
volatile double result;
static __attribute__((noinline)) void hidden(long n)
{
    double s = 0;
    while (n--)
        for (int i = 0; i < 100; i++)
            s = s * 1.0000001 + 0.25;
    result = s;
}
void library_work(long n) { hidden(n); result = 2; }
"""


def line_of(mark):
    return next(i for i, text in enumerate(SOURCE.splitlines(), 1)
                if text.endswith(f"/* {mark} */"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Where split (with debug information) and lib.so (stripped) are."""
    top = tmp_path_factory.mktemp("procedures")
    (top / "split.c").write_text(SOURCE)
    (top / "lib.c").write_text(LIBRARY)
    for args in (["-O2", "-g", "split.c", "-o", "split", "-ldl"],
                 ["-O2", "-s", "-fPIC", "-shared", "lib.c", "-o", "lib.so"]):
        subprocess.run(["gcc", *args], cwd=top, check=True)
    return top


def rows(answer):
    return {r["procedure"]: r for r in answer["procedures"]}


def wide(row):
    """The interval, widened by its own width on both sides: true nearly
    always, where a 95% interval may fail one test in twenty."""
    width = row["self_high_ns"] - row["self_low_ns"]
    return row["self_low_ns"] - width, row["self_high_ns"] + width


def test_shares_names_and_intervals(shared, programs):
    """Three quarters of the CPU go to one procedure, through one inlined into
    it. Would catch shares beside the truth (which the program measures
    itself), sums that do not close, names, files and lines that are not those
    of the source, and inlined procedures taken for their host."""
    c = shared
    done = c.ipsrun([programs / "split", "split", "1200"], name="shares-r",
                    options=["--rate", "2"], check=True)
    heavy, light = map(int, done.stdout.split())
    c.wait_closed("shares-r")
    a = c.json("procedures", "shares-r")
    found = rows(a)
    assert found["kernel"]["samples"] > 50
    low, high = wide(found["kernel"])
    assert low <= heavy <= high
    low, high = wide(found["light"])
    assert low <= light <= high
    assert found["kernel"]["self_low_ns"] <= found["kernel"]["self_ns"] \
        <= found["kernel"]["self_high_ns"]
    # Inlined: kernel's own, and in heavy's total alone.
    assert found["heavy"]["self_ns"] < 0.1 * found["kernel"]["self_ns"]
    assert found["heavy"]["total_ns"] >= found["kernel"]["self_ns"]
    # Each is the share of its samples, rounded to a ns by itself.
    assert found["main"]["total_ns"] + 2 >= \
        found["heavy"]["total_ns"] + found["light"]["total_ns"]
    assert found["light"]["file"].endswith("/split.c")
    assert found["light"]["line"] == line_of("LIGHT")
    assert found["heavy"]["line"] == line_of("HEAVY")
    assert found["heavy"]["module"] == str(programs / "split")
    # Everything adds up to the CPU.
    assert sum(r["self_ns"] for r in a["procedures"]) == a["cpu_ns"]
    assert sum(r["samples"] for r in a["procedures"]) == a["samples"]
    assert a["asked_period_ns"] == 2_000_000
    assert a["period_ns"] == a["sampled_ns"] // a["samples"]
    cpu = next(r for r in c.json("metrics", "shares-r")["metrics"]
               if r["level"] == "run")["cpu_ns"]
    assert a["cpu_ns"] == cpu
    # By line, by process, the greatest, one object.
    lines = c.json("procedures", "shares-r", "--by", "line")["procedures"]
    best = max((r for r in lines if r["procedure"] == "kernel"),
               key=lambda r: r["self_ns"])
    assert best["line"] in (line_of("KERNEL LINE"), line_of("KERNEL LINE") - 1)
    hosts = [r for r in lines if r["procedure"] == "heavy"]
    assert line_of("HEAVY LINE") in {r["line"] for r in hosts}
    top = c.json("procedures", "shares-r", "--top", "1", "--by", "process")
    assert top["procedures"][0]["procedure"] == "kernel"
    assert top["procedure_count"] > 1
    process = top["procedures"][0]["object"]
    own = rows(c.json("procedures", "shares-r", "--object", process))
    assert own["kernel"]["self_ns"] == found["kernel"]["self_ns"]
    done = c.ipsq("procedures", "shares-r", "--object", "/m1/nobody.1")
    assert done.returncode == 1 and "no object" in done.stderr
    table = c.ipsq("procedures", "shares-r").stdout
    assert "split.c:" in table and "one each" in table


def test_names_outlive_the_binary(cluster, programs, tmp_path):
    """Would catch names that are read from the file every time, and a name of
    the old build given to a program that was replaced since."""
    c = cluster()
    shutil.copy(programs / "split", tmp_path / "gone")
    c.ipsrun([tmp_path / "gone", "split", "150"], name="r",
             options=["--rate", "1"], check=True)
    c.wait_closed("r")
    before = rows(c.json("procedures", "r"))
    assert before["kernel"]["file"].endswith("/split.c")
    (tmp_path / "gone").unlink()
    c.machines[0].stop_slave()
    c.machines[0].start_slave()
    c.wait_connected()
    assert rows(c.json("procedures", "r")) == before
    # Kept in tables, once however often it is asked.
    with contextlib.closing(sqlite3.connect(
            c.machines[0].state / "slave-m1" / "slave.db")) as db:
        kept = db.execute("SELECT name, sum(self_ns), count(*) FROM procedure "
                          "WHERE name = 'kernel' GROUP BY name").fetchall()
        names = db.execute("SELECT count(*) FROM symbol WHERE text LIKE "
                           "'kernel' || char(9) || '%split.c%'").fetchone()
    assert kept == [("kernel", before["kernel"]["self_ns"], 1)]
    assert names[0] > 0
    # Replaced before anybody asked: an offset, never another's name.
    shutil.copy(programs / "split", tmp_path / "other")
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id",
                    programs / "split", tmp_path / "other"], check=True)
    c.ipsrun([tmp_path / "other", "split", "150"], name="s",
             options=["--rate", "1"], check=True)
    shutil.copy(programs / "lib.so", tmp_path / "other")
    c.wait_closed("s")
    found = rows(c.json("procedures", "s"))
    assert "kernel" not in found and "library_work" not in found
    assert any(name.startswith("other+0x") for name in found)


def test_children_libraries_and_stripped_code(shared, programs):
    """A child of fork works in a stripped library that its parent opened.
    Would catch a child without its parent's modules, exported names not used,
    and hidden procedures given an exported one's name."""
    c = shared
    c.ipsrun([programs / "split", "child", "300", programs / "lib.so"],
             name="children-r", options=["--rate", "1"], check=True)
    c.wait_closed("children-r")
    a = c.json("procedures", "children-r", "--by", "process")
    found = rows(a)
    hidden = [r for name, r in found.items() if name.startswith("lib.so+0x")]
    assert len(hidden) == 1
    assert hidden[0]["self_ns"] > 0.5 * a["sampled_ns"]
    assert found["library_work"]["total_ns"] >= hidden[0]["self_ns"]
    assert found["library_work"]["self_ns"] < 0.2 * hidden[0]["self_ns"]
    assert "main" in found


def test_places_of_events(shared, programs):
    """A read that blocks says where it was called from, and by whom. Would
    catch the wrapper's place instead, the line after the call, stacks of other
    records, and that a stack is recorded once where a wait comes again."""
    c = shared
    c.ipsrun([programs / "split", "wait"], name="places-r", check=True)
    c.wait_closed("places-r")
    place = f"wait_here (split.c:{line_of('WAIT LINE')})"
    events = c.json("events", "places-r", "--stacks")["events"]
    got = [e for e in events if e["site"] == place]
    assert {e["type"] for e in got} == {"receive-call", "receive"}
    waits = [e for e in got if e["type"] == "receive"]
    assert len(waits) == 3
    for e in waits:
        assert e["stack"][0] == place
        assert e["stack"][1].startswith("main (split.c:")
    assert all(e["stack"][0] == e["site"] for e in events if e["stack"])
    plain = c.json("events", "places-r")["events"]
    assert len(plain) == len(events) and "site" not in plain[0]
    assert "stack" not in c.json("events", "places-r", "--sites")["events"][0]


BY_SYSCALL = r"""
#define _GNU_SOURCE
#include <linux/futex.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <sys/un.h>
#include <unistd.h>
static int fd[2], word, in[2], out[2], file, server, client, failed;
#define CALL(name, ...)                                                        \
    __attribute__((noinline)) static void name(void)                           \
    {                                                                          \
        failed += syscall(__VA_ARGS__) < 0;                                    \
        __asm__ volatile("");                                                  \
    }
static char c;
static struct iovec v = {&c, 1};
static struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
static struct pollfd p;
static struct timespec ms = {0, 1000000};
CALL(c_write, SYS_write, fd[0], &c, 1L)
CALL(c_writev, SYS_writev, fd[0], &v, 1L)
CALL(c_sendto, SYS_sendto, fd[0], &c, 1L, 0L, 0L, 0L)
CALL(c_sendmsg, SYS_sendmsg, fd[0], &m, 0L)
CALL(c_poll, SYS_ppoll, &p, 1L, 0L, 0L, 0L)
CALL(c_read, SYS_read, fd[1], &c, 1L)
CALL(c_readv, SYS_readv, fd[1], &v, 1L)
CALL(c_recvfrom, SYS_recvfrom, fd[1], &c, 1L, 0L, 0L, 0L)
CALL(c_recvmsg, SYS_recvmsg, fd[1], &m, 0L)
CALL(c_futex, SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0L, &ms, 0L, 0L)
static struct mmsghdr mm;
static struct sockaddr_un name = {.sun_family = AF_UNIX};
static socklen_t len = sizeof(sa_family_t);
CALL(c_pwritev2, SYS_pwritev2, fd[0], &v, 1L, -1L, -1L, 0L)
CALL(c_sendmmsg, SYS_sendmmsg, fd[0], &mm, 1L, 0L)
CALL(c_preadv2, SYS_preadv2, fd[1], &v, 1L, -1L, -1L, 0L)
CALL(c_recvmmsg, SYS_recvmmsg, fd[1], &mm, 1L, 0L, 0L)
CALL(c_sendfile, SYS_sendfile, in[1], file, 0L, 1L)
CALL(c_vmsplice, SYS_vmsplice, in[1], &v, 1L, 0L)
CALL(c_tee, SYS_tee, in[0], out[1], 1L, 0L)
CALL(c_splice, SYS_splice, in[0], 0L, out[1], 0L, 2L, 0L)
CALL(c_connect, SYS_connect, client, &name, len)
CALL(c_accept, SYS_accept, server, 0L, 0L)
CALL(c_connect_again, SYS_connect, client, &name, len)
CALL(c_accept4, SYS_accept4, server, 0L, 0L, 0L)
int main(void)
{
    alarm(100);
    socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
    p.fd = fd[1];
    p.events = POLLIN;
    mm.msg_hdr = m;
    c_write(), c_writev(), c_sendto(), c_sendmsg(), c_poll();
    c_read(), c_readv(), c_recvfrom(), c_recvmsg(), c_futex();
    c_pwritev2(), c_sendmmsg(), c_preadv2(), c_recvmmsg();
    pipe(in), pipe(out), file = open("/proc/self/exe", O_RDONLY);
    c_sendfile(), c_vmsplice(), c_tee(), c_splice();
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    client = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(server, (void *)&name, len), listen(server, 8);
    len = sizeof(name), getsockname(server, (void *)&name, &len);
    c_connect(), c_accept();
    client = socket(AF_UNIX, SOCK_STREAM, 0);
    c_connect_again(), c_accept4();
    return failed - 1; /* the futex */
}
"""


def test_places_of_syscalls(shared, tmp_path):
    """What a program asks for by syscall(), as the locks of Rust and C++20 do,
    is told at the program's place. Would catch a place in the interposer, and
    none."""
    (tmp_path / "raw.c").write_text(BY_SYSCALL)
    subprocess.run(["gcc", "-O1", "-g", "raw.c", "-o", "raw"], cwd=tmp_path,
                   check=True)
    c = shared
    c.ipsrun([tmp_path / "raw"], name="raw", check=True)
    c.wait_closed("raw")
    got = {e["site"].split(" ")[0]: e["type"]
           for e in c.json("events", "raw", "--sites")["events"] if e["site"]}
    assert got == {
        "c_write": "send", "c_writev": "send", "c_sendto": "send",
        "c_sendmsg": "send", "c_poll": "resume", "c_read": "receive",
        "c_readv": "receive", "c_recvfrom": "receive", "c_recvmsg": "receive",
        "c_futex": "acquire", "c_pwritev2": "send", "c_sendmmsg": "send",
        "c_preadv2": "receive", "c_recvmmsg": "receive",
        "c_sendfile": "send", "c_vmsplice": "send", "c_tee": "send",
        "c_splice": "send", "c_connect": "send", "c_accept": "receive",
        "c_connect_again": "send", "c_accept4": "receive",
        "main": "release"}  # listen


BY_NAME = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int fd[2], status;
static pid_t child;
static pthread_t thread;
static FILE *stream;
static siginfo_t info;
static char line[64];
static char *argv[] = {"/bin/true", NULL};
#define PLACE __attribute__((noinline)) static
#define AFTER __asm__ volatile("")
static void *nothing(void *p) { return p; }
PLACE void c_fork(void) { if ((child = fork()) == 0) _exit(0); AFTER; }
PLACE void c_wait(void) { wait(&status); AFTER; }
PLACE void c_vfork(void) { if ((child = vfork()) == 0) _exit(0); AFTER; }
PLACE void c_waitpid(void) { waitpid(child, &status, 0); AFTER; }
PLACE void c_spawn(void) { posix_spawn(&child, *argv, 0, 0, argv, environ); AFTER; }
PLACE void c_waitid(void) { waitid(P_PID, child, &info, WEXITED); AFTER; }
PLACE void c_raw_vfork(void) { if ((child = syscall(SYS_vfork)) == 0) _exit(0); AFTER; }
PLACE void c_raw_wait(void) { syscall(SYS_wait4, child, &status, 0L, 0L); AFTER; }
PLACE void c_create(void) { pthread_create(&thread, NULL, nothing, NULL); AFTER; }
PLACE void c_join(void) { pthread_join(thread, NULL); AFTER; }
PLACE void c_system(void) { status = system(":"); AFTER; }
PLACE void c_popen(void) { stream = popen("echo", "r"); AFTER; }
PLACE void c_fgets(void) { stream = fgets(line, 64, stream) ? stream : 0; AFTER; }
PLACE void c_pclose(void) { status = pclose(stream); AFTER; }
PLACE void c_kill(void) { kill(getpid(), SIGUSR1); AFTER; }
PLACE void c_raise(void) { raise(SIGUSR1); AFTER; }
PLACE void c_raw_kill(void) { syscall(SYS_kill, getpid(), SIGUSR1); AFTER; }
PLACE void c_shutdown(void) { shutdown(fd[0], SHUT_WR); AFTER; }
PLACE void c_close(void) { close(fd[0]); AFTER; }
PLACE void c_dup2(void) { dup2(2, fd[0]); AFTER; }
PLACE void c_raw_close(void) { syscall(SYS_close, fd[0]); AFTER; }
PLACE void c_puts(void) { fputs("x", stream); fflush(stream); AFTER; }
PLACE void c_fclose(void) { fclose(stream); AFTER; }
int main(void)
{
    alarm(100);
    signal(SIGUSR1, SIG_IGN);
    c_fork(), c_wait(), c_vfork(), c_waitpid(), c_spawn(), c_waitid();
    c_raw_vfork(), c_raw_wait(), c_create(), c_join(), c_system();
    c_popen(), c_fgets(), c_pclose(), c_kill(), c_raise(), c_raw_kill();
    socketpair(AF_UNIX, SOCK_STREAM, 0, fd), c_shutdown(), c_close();
    socketpair(AF_UNIX, SOCK_STREAM, 0, fd), c_dup2();
    socketpair(AF_UNIX, SOCK_STREAM, 0, fd), c_raw_close();
    pipe(fd), stream = fdopen(fd[1], "w"), c_puts(), c_fclose();
    return 0;
}
"""


def test_places_of_all_events(shared, tmp_path):
    """Children, threads, signals, closes, and what the C library does for
    stdio have the program's place. Would catch a record without one, a place
    in the C library or in the interposer, and one that the archive lost."""
    (tmp_path / "named.c").write_text(BY_NAME)
    subprocess.run(["gcc", "-O1", "-g", "-w", "-pthread", "named.c", "-o",
                    "named"], cwd=tmp_path, check=True)
    c = shared
    c.ipsrun([tmp_path / "named"], name="named", check=True)
    c.wait_closed("named")
    got = sorted((e["site"].split(" ")[0], e["type"])
                 for e in c.json("events", "named", "--sites")["events"]
                 if (e["site"] or "").startswith("c_") and
                 e["type"] not in ("receive-call", "acquire-call"))
    assert got == sorted([
        ("c_fork", "fork"), ("c_wait", "join"), ("c_vfork", "fork"),
        ("c_waitpid", "join"), ("c_spawn", "fork"), ("c_waitid", "join"),
        ("c_raw_vfork", "fork"), ("c_raw_wait", "join"), ("c_create", "fork"),
        ("c_join", "join"), ("c_system", "fork"), ("c_system", "join"),
        ("c_popen", "fork"), ("c_fgets", "receive"), ("c_pclose", "close"),
        ("c_pclose", "join"), ("c_kill", "kill"), ("c_raise", "kill"),
        ("c_raw_kill", "kill"), ("c_shutdown", "close"), ("c_close", "close"),
        ("c_dup2", "close"), ("c_raw_close", "close"), ("c_puts", "send"),
        ("c_fclose", "close")])


WRITES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void puts_it(FILE *f) { fputs("x", f), fflush(f); }
int main(int argc, char **argv)
{
    int fd[2], left = argc > 1 ? atoi(argv[1]) : 0;
    char n[12];
    pipe(fd), puts_it(fdopen(fd[1], "w"));
    sprintf(n, "%d", left - 1);
    return left > 0 ? execl(argv[0], argv[0], n, NULL) : 0;
}
"""


def test_places_after_an_early_sample(shared, tmp_path):
    """A large environment makes the agent's start long, so that samples are
    taken before it is over. Would catch one that makes the agent forget for
    good where the C library is: what that did for stdio then had no place in
    the program (seen in one of five starts)."""
    (tmp_path / "writes.c").write_text(WRITES)
    subprocess.run(["gcc", "-O1", "-g", "-w", "writes.c", "-o", "writes"],
                   cwd=tmp_path, check=True)
    c = shared
    c.ipsrun([tmp_path / "writes", 24], name="early", check=True,
             env={f"V{i}": "x" for i in range(60000)}, options=["--rate", "1"])
    c.wait_closed("early")
    places = [e["site"].split(" ")[0]
              for e in c.json("events", "early", "--sites")["events"]
              if e["type"] == "send"]
    assert places == ["puts_it"] * 25


INSTRUMENTED = r"""
#include <time.h>
volatile double sink;
static long __attribute__((no_instrument_function)) now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void __attribute__((no_instrument_function)) burn(long ms)
{
    for (long end = now() + ms * 1000000; now() < end;)
        sink += 1;
}
void __attribute__((noinline)) inner(void) { burn(3); }
void __attribute__((noinline)) outer(void) { burn(1); inner(); burn(1); }
void __attribute__((noinline)) hot(void) { sink += 1; }
int main(void)
{
    for (int i = 0; i < 40; i++)
        outer();
    for (long i = 0; i < 300000; i++)
        hot();
    return 0;
}
"""


def test_exact_and_counted(shared, tmp_path):
    """Instrumented code: with --procedures=exact times by entry and exit, and a
    hot procedure that falls back to counters; with samples the calls alone.
    Would catch time charged to the caller or twice, calls that are lost when
    counting begins, and a fall back that is not told."""
    c = shared
    (tmp_path / "i.c").write_text(INSTRUMENTED)
    subprocess.run(["gcc", "-O1", "-g", "-finstrument-functions", "i.c", "-o",
                    "i"], cwd=tmp_path, check=True)
    c.ipsrun([tmp_path / "i"], name="exact-e", options=["--procedures=exact"],
             check=True)
    c.ipsrun([tmp_path / "i"], name="exact-s", check=True)
    c.wait_closed("exact-e")
    c.wait_closed("exact-s")
    a = c.json("procedures", "exact-e")
    found = rows(a)
    ms = 1_000_000
    assert found["inner"]["exact"] and found["inner"]["calls"] == 40
    assert found["inner"]["line"] == 1 + next(
        i for i, text in enumerate(INSTRUMENTED.splitlines())
        if " inner(void)" in text)
    assert 120 * ms <= found["inner"]["self_ns"] == found["inner"]["total_ns"]
    assert 80 * ms <= found["outer"]["self_ns"] < found["inner"]["self_ns"]
    assert found["outer"]["total_ns"] == \
        found["outer"]["self_ns"] + found["inner"]["self_ns"]
    assert found["inner"]["self_low_ns"] == found["inner"]["self_ns"]
    assert found["hot"]["calls"] == 300000
    assert found["hot"]["counted_from_ns"] > 0
    assert found["inner"]["counted_from_ns"] is None
    assert sum(r["self_ns"] for r in a["procedures"]) == a["cpu_ns"]
    assert a["samples"] == 0 and a["exact_ns"] > 0
    # C of the process, the machine and the run, whatever is shown of it.
    assert a["calls"] == sum(r["calls"] or 0 for r in a["procedures"]) > 300040
    assert c.json("procedures", "exact-e", "--top", "1")["calls"] == a["calls"]
    assert c.json("procedures", "exact-e", "--by", "line")["calls"] is None
    assert "hot: from " in c.ipsq("procedures", "exact-e").stdout
    found = rows(c.json("procedures", "exact-s"))
    assert found["inner"]["calls"] == 40 and not found["inner"]["exact"]
    assert found["hot"]["calls"] == 300000
    assert found["hot"]["counted_from_ns"] is None


def test_machines_are_merged(cluster, programs):
    """The same program on two machines of one run. Would catch rows that are
    not added up, samples counted twice, and a machine that is left out."""
    c = cluster(["m1", "m2"])
    c.ipsrun([programs / "split", "split", "100"], name="r",
             options=["--rate", "1"], check=True)
    c.ipsrun([programs / "split", "split", "100"], join="r", machine=1,
             options=["--rate", "1"], check=True)
    c.wait_closed("r", machines=2)
    a = c.json("procedures", "r")
    split = c.json("procedures", "r", "--by", "process")
    both = [r for r in split["procedures"] if r["procedure"] == "kernel"]
    assert {r["object"].split("/")[1] for r in both} == {"m1", "m2"}
    assert rows(a)["kernel"]["self_ns"] == sum(r["self_ns"] for r in both)
    assert a["samples"] == sum(r["samples"] for r in a["procedures"])
    one = c.json("procedures", "r", "--object", "/m2")
    assert one["samples"] < a["samples"]
    assert sum(r["self_ns"] for r in one["procedures"]) == one["cpu_ns"]


def test_without_samples(shared, programs):
    """Would catch an empty table where the user should be told what to do."""
    c = shared
    c.ipsrun([programs / "split", "split", "50"], name="without-r",
             options=["--procedures=off"], check=True)
    c.wait_closed("without-r")
    done = c.ipsq("procedures", "without-r")
    assert done.returncode == 1
    assert "ipsrun --procedures=sample" in done.stderr
    done = c.ipsq("procedures", "without-r", "--by", "moon")
    assert done.returncode == 2 and "procedure, process, line" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root's slave reads what a user named")
def test_files_of_others(cluster, programs):
    """A program that its user may execute but not read. Would catch names out of a file that
    the user may not read, told to him by root's slave, and names that are missing without a
    word; a debug file of 8 GiB of nothing that root's slave reads."""
    c = cluster()
    m = c.machines[0]
    for path in (c.root, m.pool.parent, m.pool):
        path.chmod(0o711)
    for name, mode in (("hidden", 0o711), ("open", 0o755)):
        subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", programs / "split",
                        c.root / name], check=True)
        (c.root / name).chmod(mode)
        c.ipsrun(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", c.root / name,
                  "split", "100"], name=name, options=["--rate", "1"], check=True)
        c.wait_closed(name)
        found = rows(c.json("procedures", name))
        assert ("light" in found) == (name == "open")
        assert any(r.startswith(name + "+0x") for r in found) == (name == "hidden")
    assert m.log.read_text().count(f"{c.root}/hidden: Permission denied") == 1
    subprocess.run("objcopy --only-keep-debug open huge && objcopy -g --add-gnu-debuglink=huge "
                   "open large && truncate -s 8G huge", shell=True, cwd=c.root, check=True)
    c.ipsrun([c.root / "large", "split", "100"], name="r", options=["--rate", "1"], check=True)
    c.wait_closed("r")
    assert rows(c.json("procedures", "r"))["light"]["file"] is None
    assert f"symbols of {c.root}/large: {c.root}/huge has 8589934592 bytes" in m.log.read_text()


@pytest.mark.parametrize("options,advice,not_advice", [
    (("--procedures=off",), "--procedures=sample", "--rate"),
    (("--rate", "100"), "--rate 1", "--procedures=sample"),
])
def test_advice_where_no_procedure_is_known(shared, options, advice,
                                            not_advice):
    """Would catch the advice to sample where samples were taken: of a program that
    computes too little there are none."""
    c, name = shared, "advice" + "".join(options).replace("=", "")
    c.ipsrun(["sleep", "0.3"], name=name, options=options, check=True)
    c.wait_closed(name)
    errors = [c.ipsq("procedures", name).stderr,
              c.ipsq("whatif", name, "--procedure", "x", "--faster",
                     "2x").stderr]
    notes = [note for words in (("why", name), ("waits", name),
                                ("whatif", name))
             for note in c.json(*words)["certificate"]["notes"]
             if "for a sample" in note or "were not recorded" in note]
    assert len(notes) == 3
    for text in errors + notes:
        assert advice in text and not_advice not in text, text
    doubt = c.json("why", name)["sure_why"] or ""
    assert ("procedures" in doubt) == (advice == "--procedures=sample"), doubt
