"""Programs that the agent cannot get into: linked statically, 32-bit, built
for musl, with AddressSanitizer, set-user-id. They behave as without IPS, and the
certificate names them.

Would catch: a musl program that no longer starts, because its loader finds our
library in LD_PRELOAD; a loader's error in a 32-bit program's output; an
untraced process that is silently absent, or a traced one called untraced.
"""
import os
import pathlib
import platform
import shutil
import stat
import subprocess
import tempfile

import pytest

from conftest import clean_env, wait_until

HELLO = r"""
#include <stdio.h>
int main(void) { puts("hello"); fputs("to stderr\n", stderr); return 3; }
"""
FAULTY = r"""
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int shared;
static void *add(void *lock)
{
    for (int i = 0; i < 1000; i++)
        shared++; /* KIND_thread: a race */
    return lock;
}
int main(int argc, char **argv)
{
    pthread_t t[2];
    char *place = malloc(8), text[8] = "1234567";
    int end[2];
    (void)argv;
    if (!place || pipe(end) || write(end[1], text, 8) != 8)
        return 1;
#if defined(KIND_address)
    return read(end[0], place + argc * 4, 8) == 8; /* beyond its end */
#elif defined(KIND_leak)
    for (int i = 0; i < 100; i++) /* a stack may still hold one: it counts as used */
        place = malloc(8);
    place = NULL;
    return 0;
#elif defined(KIND_undefined)
    int big = INT_MAX;
    return big + argc == 0;
#else
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    free(place);
    return 0;
#endif
}
"""
# Executes its arguments: in its place, or (first argument -f) as a child that
# it waits for.
RUNNER = r"""
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int status, fork_it = argc > 1 && !strcmp(argv[1], "-f");
    if (fork_it && vfork() != 0)
        return wait(&status) < 0 ? 1 : WEXITSTATUS(status);
    execvp(argv[1 + fork_it], argv + 1 + fork_it);
    _exit(127);
}
"""
# Executes its argument by an instruction of its own, without our library.
OWN_EXEC = r"""
int main(int argc, char **argv)
{
    char *env[] = {0};
    long n = 59;
    (void)argc;
    __asm__ volatile("syscall" : "+a"(n) : "D"(argv[1]), "S"(argv + 1), "d"(env)
                     : "rcx", "r11", "memory");
    return 1;
}
"""
# Lives until its input ends.
READER = r"""
#include <unistd.h>
int main(void)
{
    char c;
    while (read(0, &c, 1) > 0)
        ;
    return 0;
}
"""
# No C library for 32 bits is needed to build it, its loader to run it.
HELLO_32 = r"""
static long call(long n, long a, long b, long c)
{
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c)
                     : "memory");
    return r;
}
void _start(void)
{
    call(4, 1, (long)"hello\n", 6);
    call(4, 2, (long)"to stderr\n", 10);
    call(1, 3, 0, 0);
}
"""
RESULT = (3, "hello\n", "to stderr\n")


def compile_c(where, name, text, *command):
    source = where / (name + ".c")
    source.write_text(text)
    subprocess.run([*command, "-o", where / name, source], check=True)
    return str(where / name)


@pytest.fixture(scope="module")
def programs():
    where = pathlib.Path(tempfile.mkdtemp(prefix="ips-untraced-"))
    where.chmod(0o755)
    made = {
        "dynamic": compile_c(where, "dynamic", HELLO, "gcc"),
        "static": compile_c(where, "static", HELLO, "gcc", "-static"),
        "static-pie": compile_c(where, "static-pie", HELLO, "gcc",
                                "-static-pie"),
        "other-C-library": compile_c(where, "musl", HELLO, "musl-gcc"),
        "32-bit": compile_c(
            where, "bits32", HELLO_32, "gcc", "-m32", "-nostdlib", "-pie",
            "-fpie", "-fno-stack-protector",
            "-Wl,--dynamic-linker=/lib/ld-linux.so.2"),
        "AddressSanitizer": compile_c(where, "asan", HELLO, "gcc", "-fsanitize=address"),
        "runner": compile_c(where, "runner", RUNNER, "gcc"),
        "static-runner": compile_c(where, "static-runner", RUNNER, "gcc",
                                   "-static"),
        "musl-runner": compile_c(where, "musl-runner", RUNNER, "musl-gcc"),
        "where": where,
    }
    script = where / "script"
    script.write_text("#!%s -x\n" % made["other-C-library"])
    script.chmod(0o755)
    made["script"] = str(script)
    yield made
    shutil.rmtree(where)


def result(done):
    return done.returncode, done.stdout, done.stderr


def untraced(c, run):
    """[(cause, file name, count)] of the certificate, sorted."""
    c.wait_closed(run)
    cert = c.json("path", run, status=(0, 1, 3)).get("certificate")
    if cert is None:  # a run without a single traced process has no path
        cert = c.json("ls", run, status=(0, 3))["certificate"]
    rows = cert["untraced"]
    assert sum(r["count"] for r in rows) == cert["untraced_processes"], cert
    assert all(r["pid"] > 0 and r["machine"] == "m1" for r in rows), cert
    return sorted((r["cause"], os.path.basename(r["program"]), r["count"])
                  for r in rows)


KINDS = {"static": "static", "static-pie": "static",
         "other-C-library": "other-C-library", "32-bit": "32-bit",
         "AddressSanitizer": "AddressSanitizer"}


def test_ways_to_start_one(cluster, programs):
    """Every kind, started in every way, prints and returns what it does
    without us, and is named."""
    c = cluster()
    for kind, cause in KINDS.items():
        path, where = programs[kind], programs["where"]
        name = os.path.basename(path)
        fork, spawn = (programs["runner"], "-f"), (
            "/usr/bin/python3", "-c",
            "import os, sys\n"
            "pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)\n"
            "os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
        ways = {"ipsrun": (path,), "exec": (programs["runner"], path),
                "vfork": (*fork, path), "spawn": (*spawn, path),
                "path": (*fork, name), "spawn-path": (*spawn, name),
                "shell": ("/bin/sh", "-c", path + " ; exit $?")}
        env = {"PATH": f"/nonexistent:{where}:{os.environ['PATH']}"}
        for way, command in ways.items():
            run = f"{kind}-{way}"
            done = c.ipsrun(command, name=run, env=env)
            assert result(done) == RESULT, run
            assert untraced(c, run) == [(cause, name, 1)], run


def test_ipsrun_says_so(cluster, programs):
    """One line for a command that is not recorded, none for one that is. Would catch:
    an empty record that nobody explains."""
    c = cluster()

    def loud(program):
        words = [w for w in c._ipsrun([program], None, None, 0, ()) if w != "--quiet"]
        return subprocess.run(words, env=clean_env(**c.machines[0].env),
                              capture_output=True, text=True)
    why = {"static": "it is linked statically", "32-bit": "it is a 32-bit program",
           "other-C-library": "its C library is not the GNU one",
           "AddressSanitizer": "AddressSanitizer must be loaded before any other library"}
    for kind, text in why.items():
        done = loud(programs[kind])
        assert done.returncode == 3
        assert f"ipsrun: {programs[kind]} runs unrecorded: {text}\n" in done.stderr
    assert "unrecorded" not in loud(programs["dynamic"]).stderr


@pytest.mark.parametrize("sanitizer", ["address", "thread", "leak", "undefined"])
def test_sanitizers_judge_as_before(cluster, programs, sanitizer):
    """A sound program passes and a faulty one is found, as without us: alone, below a
    shell, and with the runtime in the user's LD_PRELOAD. Would catch: a runtime that
    does not start with our library beside it, or no longer sees the calls."""
    c, where = cluster(), programs["where"]
    sound = compile_c(where, sanitizer, HELLO, "gcc", f"-fsanitize={sanitizer}")
    faulty = compile_c(where, sanitizer + "-faulty", FAULTY, "gcc", "-O0", "-pthread",
                       f"-fsanitize={sanitizer}", f"-DKIND_{sanitizer}")
    env = {"TSAN_OPTIONS": "exitcode=66", "UBSAN_OPTIONS": "halt_on_error=1:exitcode=66",
           "ASAN_OPTIONS": "exitcode=66", "LSAN_OPTIONS": "exitcode=66"}
    if sanitizer == "address":
        env["ASAN_OPTIONS"] += ":verify_asan_link_order=0" # recorded then
    for way in ((), ("/bin/sh", "-c", '"$@"; exit $?', "sh"), (programs["runner"], "-f")):
        done = c.ipsrun([*way, sound], name=f"sound-{sanitizer}-{len(way)}", env=env)
        assert result(done) == RESULT
        assert not untraced(c, f"sound-{sanitizer}-{len(way)}")
        done = c.ipsrun([*way, faulty], name=f"faulty-{sanitizer}-{len(way)}", env=env)
        bare = subprocess.run([faulty], env={**os.environ, **env}, capture_output=True,
                              text=True)
        assert done.returncode == bare.returncode == 66, done.stderr


def test_scripts_and_loaders_by_hand(cluster, programs):
    """A script is what its interpreter is; musl's loader can be called as a
    program; of the users' own LD_PRELOAD nothing is taken away."""
    c = cluster()
    musl = programs["other-C-library"]
    assert result(c.ipsrun([programs["script"]], name="script")) == RESULT
    assert untraced(c, "script") == [("other-C-library", "script", 1)]
    loader = "/lib/ld-musl-x86_64.so.1"
    assert result(c.ipsrun([loader, musl], name="loader")) == RESULT
    assert untraced(c, "loader") == [("other-C-library",
                                      os.path.basename(loader), 1)]
    own = programs["where"] / "own.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-o", own, "-xc",
                    "-"], input="int puts(const char *s) { return *s; }",
                   text=True, check=True)
    for command in ([musl], [programs["runner"], musl]):
        done = c.ipsrun(["/usr/bin/env", f"LD_PRELOAD={own}", *command],
                        name=f"own-{len(command)}")
        assert result(done) == (3, "", "to stderr\n")


def test_the_loader_by_hand(cluster, programs):
    """A program that the loader starts is traced; where the loader lists what it would
    load, that process is named untraced. Started by ipsrun, exec and vfork."""
    c = cluster()
    loader, dynamic = "/lib64/ld-linux-x86-64.so.2", programs["dynamic"]
    for i, way in enumerate(((), ("env",), (programs["runner"], "-f"))):
        done = c.ipsrun([*way, loader, "--argv0", "x", dynamic], name=f"starts-{i}")
        assert result(done) == RESULT
        assert untraced(c, f"starts-{i}") == []
        done = c.ipsrun([*way, loader, "--list", dynamic], name=f"lists-{i}")
        assert done.returncode == 0 and "libc.so" in done.stdout
        assert "libips" not in done.stdout
        assert untraced(c, f"lists-{i}") == [("loader", os.path.basename(loader), 1)]


def test_what_an_untraced_one_starts(cluster, programs):
    """A static program keeps the environment: what it executes or starts is
    traced again, and joined to who started it."""
    c = cluster()
    for way in ((), ("-f",)):
        run = "again" + "".join(way)
        done = c.ipsrun([programs["runner"], "-f", programs["static-runner"],
                         *way, programs["dynamic"]], name=run)
        assert result(done) == RESULT
        assert untraced(c, run) == [("static", "static-runner", 1)]
        rows = c.json("ls", run, status=(3,))["processes"]
        (last,) = [r for r in rows if r["name"].startswith("dynamic.")]
        assert last["parent_pid"] in {r["pid"] for r in rows
                                      if r["name"].startswith("runner.")}
    done = c.ipsrun([programs["runner"], "-f", programs["musl-runner"], "-f",
                     programs["dynamic"]], name="lost")
    assert result(done) == RESULT
    assert untraced(c, "lost") == [("other-C-library", "musl-runner", 1)]
    # A new slave has the graph from its file.
    assert c.machines[0].stop_slave() == 0
    c.machines[0].start_slave()
    c.wait_connected()
    assert untraced(c, "lost") == [("other-C-library", "musl-runner", 1)]


@pytest.mark.timeout(600)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86-64 instruction")
def test_program_executed_without_a_record(cluster, programs):
    """Would catch: a recorded process that goes on in a program that records nothing,
    and counts as recorded because no call and no record says so."""
    c = cluster()
    program = compile_c(programs["where"], "own-exec", OWN_EXEC, "gcc")
    reader = compile_c(programs["where"], "reader", READER, "gcc", "-static")
    proc = c.popen([program, reader], name="own", stdin=subprocess.PIPE)

    def named():
        done = c.ipsq("path", "own", "--format", "json")
        return '"cause":"unknown"' in done.stdout.replace(" ", "")
    # It looks after 0.1, 0.4, 1.6 ... and at last every 60 s.
    wait_until("the slave has noticed", named, seconds=400)
    proc.stdin.close()
    assert proc.wait(60) == 0
    assert untraced(c, "own") == [("unknown", "reader", 1)]


def test_all_traced(cluster, programs):
    """Chains of exec within one process, and what runs other programs for a
    living: nothing of it is called untraced."""
    c = cluster()
    chain = ["/usr/bin/env", "nice", "timeout", "60", "setsid", "--wait",
             "sh", "-c", "exec env " + programs["dynamic"]]
    assert result(c.ipsrun(chain, name="chain")) == RESULT
    assert untraced(c, "chain") == []
    done = c.ipsrun(["sh", "-c", "seq 20 | xargs -P4 -n1 /bin/echo | sort -n"],
                    name="xargs")
    assert done.stdout == "".join(f"{i}\n" for i in range(1, 21))
    assert untraced(c, "xargs") == []
    rows = c.json("ls", "xargs")["processes"]
    assert sum(r["name"].startswith("echo.") for r in rows) == 20


def demote():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


NO_THREADS = """
import os, resource
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
os.execv("/bin/echo", ["echo", "0"])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a "
                    "set-user-id program")
def test_set_user_id(build, programs):
    """An ordinary user runs a set-user-id program: it has its rights, and its
    loader ignored us. And one that may create no thread executes a program: it
    is not known whether our library would harm that, so it runs without."""
    where = programs["where"] / "setuid"
    where.mkdir()
    who = compile_c(where, "who", r"""
        #include <stdio.h>
        #include <unistd.h>
        int main(void) { printf("%d\n", (int)geteuid()); return 0; }
    """, "gcc")
    os.chmod(who, 0o4755)
    # Its loader must be able to reach our library, wherever we were built.
    shutil.copytree(build.top / "bin", where / "bin",
                    ignore=shutil.ignore_patterns("programs"))
    shutil.copytree(build.top / "lib", where / "lib")
    home = where / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    env = clean_env(HOME=home, XDG_STATE_HOME=home / "state",
                    IPS_POOL_ROOT=f"/dev/shm/ips-test-{os.getpid()}-nobody")

    def as_nobody(*command):
        return subprocess.run([str(a) for a in command], env=env, cwd="/",
                              preexec_fn=demote, capture_output=True,
                              text=True, timeout=180)
    try:
        for command, cause in (((who,), "set-user-id"),
                               ((programs["runner"], "-f", who),
                                "set-user-id"),
                               (("/usr/bin/python3", "-c", NO_THREADS), "not-examined"),
                               ((programs["runner"], "-f",
                                 programs["dynamic"]), None)):
            run = f"run{len(command)}{cause}"
            done = as_nobody(where / "bin" / "ipsrun", "--quiet", "--name",
                             run, "--", *command)
            if cause:
                assert result(done) == (0, "0\n", "")
            else:
                assert result(done) == RESULT
            if len(command) == 1:
                continue
            ask = as_nobody(where / "bin" / "ipsq", "path", run, "--format",
                            "json")
            assert ask.returncode in (0, 3), ask.stderr
            assert (f'"cause":"{cause}"' in ask.stdout.replace(" ", "")) == \
                bool(cause), ask.stdout
    finally:
        from conftest import end_all
        end_all(env["IPS_POOL_ROOT"])
        assert stat.S_ISDIR(os.stat(where).st_mode)
