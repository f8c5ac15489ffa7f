"""Static TLS of the preload library: the loader has little of it where LD_AUDIT is set,
and what does not fit is mapped by the threads that need it (agent/record/extra.h)."""
import re
import subprocess
import sys

import pytest

from conftest import ROOT, clean_env, give_clock

sys.path.insert(0, str(ROOT / "tests" / "oracle"))
import pool_reader as pool  # noqa: E402

pytestmark = pytest.mark.quick

AUDIT = "unsigned la_version(unsigned v) { return v; }\n"

# What uses the mapped part: marks, waits of more than 50 us, failed attempts at a lock,
# vfork and daemon. argv[1] `none`: no more memory can be mapped. Prints how many pages
# more are mapped after 200 threads than after 8.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static void (*mark)(const char *);
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static int work(void)
{
    char text[4] = "";
    int fd[2], status = 0, bad = 0;
    if (pipe(fd) || write(fd[1], "one", 4) != 4 || read(fd[0], text, 4) != 4)
        return 1;
    for (int i = 0; mark && i < 100; i++)
        mark(i % 2 ? "odd" : "even");
    usleep(200);
    bad |= pthread_mutex_trylock(&held) == 0;
    pid_t child = vfork();
    if (child == 0)
        _exit(7);
    bad |= child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7;
    close(fd[0]);
    close(fd[1]);
    return bad | (strcmp(text, "one") != 0) << 1;
}
static void *thread(void *bad)
{
    *(int *)bad |= work();
    return NULL;
}
static long pages(void)
{
    long size = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &size) != 1)
        return -1;
    fclose(f);
    return size;
}
int main(int argc, char **argv)
{
    int bad = 0;
    long after = 0;
    mark = (void (*)(const char *))dlsym(RTLD_DEFAULT, "ips_mark");
    pthread_mutex_lock(&held);
    if (argc > 1 && strcmp(argv[1], "none") == 0) {
        struct rlimit little = {4096, 4096};
        if (setrlimit(RLIMIT_AS, &little))
            return 8;
        bad = work();
        printf("bad %d\n", bad);
        return bad;
    }
    for (int i = 0; i < 200; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, thread, &bad) || pthread_join(t, NULL))
            return 9;
        if (i == 7)
            after = pages();
    }
    bad |= work();
    printf("bad %d, pages %d\n", bad, pages() - after > 100);
    return bad;
}
"""


def compiled(tmp_path, source, name, *options):
    (tmp_path / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-w", "-o", tmp_path / name, tmp_path / f"{name}.c", *options],
                   check=True)
    return tmp_path / name


def recorded(build, tmp_path, *argv, **env):
    """What the program prints, and the kinds of its run's records by process."""
    give_clock(build, tmp_path / "pool")
    done = subprocess.run(
        [build.bin("ipsrun"), "--no-daemons", "--quiet", "--name", "tls",
         "--pool", tmp_path / "pool", "--", "env", *(f"{k}={v}" for k, v in env.items()),
         *argv], env=clean_env(IPS_STATE=tmp_path / "state"), text=True,
        capture_output=True, timeout=300)
    kinds = {}
    for path in (tmp_path / "pool" / "tls").glob("*.seg"):
        segment = pool.Segment(str(path))
        kinds.setdefault(segment.pid, []).extend(r.kind for r in segment.records())
    return (done.returncode, done.stdout, done.stderr), kinds


def test_static_tls(build):
    """Would catch: a thread-local variable more than the loader has room for."""
    program = subprocess.run(["readelf", "-lW", build.lib("libips-preload.so")], text=True,
                             check=True, capture_output=True).stdout
    (size,) = re.findall(r"^ *TLS(?: +0x\w+){4} +(0x\w+)", program, re.M)
    assert 0 < int(size, 16) <= 1024


@pytest.mark.parametrize("audit", [False, True], ids=["plain", "audited"])
def test_recorded(build, tmp_path, audit):
    """The program ends as without us, every thread's records are there, and its memory
    is given back. Would catch: no static TLS left with LD_AUDIT, where nothing starts,
    and a page that each thread leaves behind."""
    program = compiled(tmp_path, PROGRAM, "program", "-pthread", "-ldl")
    env = {}
    if audit:
        env["LD_AUDIT"] = compiled(tmp_path, AUDIT, "audit.so", "-shared", "-fPIC")
    bare = subprocess.run([program], env=clean_env(**env), text=True, capture_output=True)
    assert (bare.returncode, bare.stdout) == (0, "bad 0, pages 0\n"), bare
    done, kinds = recorded(build, tmp_path, program, **env)
    assert done == (0, bare.stdout, bare.stderr)
    (main,) = kinds.values()
    assert main.count(pool.START) == 3 + 200  # ipsrun, env, the program; its threads
    assert main.count(pool.FORK) == 200 + 201  # threads, vforks
    assert main.count(pool.MARK) == 201 * 100 and pool.STACK in main
    assert pool.LOST not in main


def test_no_memory(build, tmp_path):
    """Where nothing can be mapped the program goes on as without us, marks are written in
    full, and the vfork is counted as lost. Would catch: a use of what was not mapped."""
    program = compiled(tmp_path, PROGRAM, "program", "-pthread", "-ldl")
    done, kinds = recorded(build, tmp_path, program, "none")
    assert done == (0, "bad 0\n", "")
    (main,) = kinds.values()
    assert main.count(pool.MARK) == 100
    assert pool.FORK not in main and pool.LOST in main
