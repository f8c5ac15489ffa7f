"""Libraries that lie before ours in the search for a name, and define names that we
interpose, too: a tool's, an allocator's, a sanitizer's, the JDK's libjsig.so."""
import re
import subprocess

import pytest

from conftest import clean_env
from test_interposer import trace  # noqa: F401 (a fixture)

# Each function passes the call on to the next definition, and is in there once: where
# that one comes back to a name of ours, the program ends.
LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int calls;
static int inside;
#define PASS(type, name, declared, given)                                  \
    type name declared {                                                   \
        __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        if (inside++) _exit(9);                                            \
        calls++;                                                           \
        type result = next given;                                          \
        inside--;                                                          \
        return result;                                                     \
    }
typedef void (*handler_t)(int);
PASS(handler_t, signal, (int s, handler_t h), (s, h))
PASS(int, sigaction, (int s, const struct sigaction *n, struct sigaction *o), (s, n, o))
PASS(int, dup, (int fd), (fd))
PASS(int, pipe, (int f[2]), (f))
PASS(int, pipe2, (int f[2], int g), (f, g))
PASS(int, socketpair, (int d, int t, int p, int f[2]), (d, t, p, f))
PASS(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))
"""

PROGRAM = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
extern int calls __attribute__((weak));
static volatile int got;
static void handler(int s) { got = s; }
int main(void) {
    int a[2], b[2], c[2];
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    int bad = got != SIGUSR1 || pipe(a) || pipe2(b, 0) || socketpair(AF_UNIX,
        SOCK_STREAM, 0, c) || dup(a[0]) < 0 || write(a[1], "x", 1) != 1;
    printf("bad %d, calls %d\n", bad, &calls ? calls : -1);
    return bad;
}
"""


def exported_and_called(library):
    """Names that the library exports, and those that it calls by the loader's table."""
    def readelf(*options):
        return subprocess.run(["readelf", "-W", *options, library], text=True, check=True,
                              capture_output=True).stdout
    exported = set(re.findall(r"(?:FUNC|IFUNC) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\w+)",
                              readelf("--dyn-syms")))
    called = set(re.findall(r"(?:JUMP_SLOT?|GLOB_DAT) +\w+ (\w+)", readelf("--relocs")))
    return exported, called


def test_no_call_of_ours_goes_by_an_exported_name(build):
    """Would catch: a function that we export and call ourselves, so that a library
    before us in the search gets the call, and may give it back to us for ever."""
    exported, called = exported_and_called(build.lib("libips-preload.so"))
    assert {"read", "sigaction", "execve"} <= exported and "dlsym" in called
    assert not exported & called


def test_a_library_before_ours(build, tmp_path):
    """The same calls reach it, as many times, and the program ends the same way."""
    (tmp_path / "before.c").write_text(LIBRARY)
    (tmp_path / "program.c").write_text(PROGRAM)
    before, program = tmp_path / "before.so", tmp_path / "program"
    for argv in (["-shared", "-fPIC", "-o", before, tmp_path / "before.c", "-ldl"],
                 ["-o", program, tmp_path / "program.c"]):
        subprocess.run(["gcc", "-w", *map(str, argv)], check=True)

    def run(*words):
        env = clean_env(LD_PRELOAD=before, IPS_POOL_ROOT=tmp_path / "pool",
                        IPS_STATE=tmp_path / "state")
        done = subprocess.run([*map(str, words), program], env=env, text=True,
                              capture_output=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    bare = run()
    assert bare[0] == 0 and "bad 0" in bare[1], bare
    assert run(build.bin("ipsrun"), "--no-daemons", "--quiet", "--") == bare


@pytest.mark.parametrize("argv", [
    ["ldd", "/bin/true"], ["env", "LD_TRACE_LOADED_OBJECTS=1", "/bin/true"],
    ["env", "LD_VERIFY=1", "LD_TRACE_LOADED_OBJECTS=1", "/bin/true"]],
    ids=["ldd", "trace", "verify"])
def test_the_loader_is_asked(build, tmp_path, argv):
    """It lists what the program loads, as without us; by exec and by ipsrun itself.
    Would catch: our library in the list."""
    def run(*words, **env):
        done = subprocess.run([*words, *argv], text=True, capture_output=True, timeout=120,
                              env=clean_env(IPS_POOL_ROOT=tmp_path / "pool",
                                            IPS_STATE=tmp_path / "state", **env))
        return done.returncode, re.sub(r"0x[0-9a-f]+", "0x", done.stdout), done.stderr

    bare = run()
    assert bare[0] == 0 and "libc.so" in bare[1]
    ipsrun = [build.bin("ipsrun"), "--no-daemons", "--quiet", "--"]
    assert run(*ipsrun) == bare
    if argv[0] == "env":
        done = subprocess.run([*ipsrun, "/bin/true"], text=True, capture_output=True,
                              env=clean_env(IPS_POOL_ROOT=tmp_path / "pool",
                                            LD_TRACE_LOADED_OBJECTS="1"))
        assert "libips" not in done.stdout


LOADER = "/lib64/ld-linux-x86-64.so.2"
SPAWN = ["/usr/bin/python3", "-c",
         "import os, sys; os._exit(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("
         "sys.argv[1], sys.argv[1:], os.environ), 0)[1]))"]


@pytest.mark.parametrize("way", [[], ["env"], ["sh", "-c", '"$@"; exit $?', "sh"], SPAWN],
                         ids=["ipsrun", "exec", "shell", "spawn"])
def test_the_loader_as_program(build, tmp_path, way):
    """Called by hand it lists, checks and explains as without us, and starts programs; a
    user's own LD_PRELOAD stays. Would catch: our library in the list."""
    (tmp_path / "own.c").write_text("int own;\n")
    own = tmp_path / "own.so"
    subprocess.run(["gcc", "-shared", "-o", own, tmp_path / "own.c"], check=True)
    for words, preload in (("--list /bin/ls", None), ("--list /bin/ls", own),
                           ("--library-path /lib --inhibit-cache --list /bin/ls", None),
                           ("--verify /bin/ls", None), ("--help", None), ("--version", None),
                           ("--list-tunables", None), ("", None), ("--nonsense", None),
                           ("/bin/echo --list", None), ("--argv0 x /bin/echo a", own),
                           ("--preload x --list", None), ("/bin/false", None)):
        def run(*command):
            more = {"LD_PRELOAD": preload} if preload else {}
            done = subprocess.run(
                [*command, *way, LOADER, *words.split()], text=True, capture_output=True,
                timeout=60, env=clean_env(IPS_POOL_ROOT=tmp_path / "pool",
                                          IPS_STATE=tmp_path / "state", **more))
            return done.returncode, re.sub(r"0x[0-9a-f]+", "0x", done.stdout), done.stderr

        bare = run()
        assert "libips" not in str(bare)
        assert run(build.bin("ipsrun"), "--no-daemons", "--quiet", "--") == bare, words


def test_the_loader_tells(build, tmp_path):
    """LD_DEBUG: nothing of ours in what it tells."""
    done = subprocess.run([build.bin("ipsrun"), "--no-daemons", "--quiet", "--", "env",
                           "LD_DEBUG=files", "/bin/true"], text=True, capture_output=True,
                          env=clean_env(IPS_POOL_ROOT=tmp_path / "pool"), timeout=120)
    assert "libc.so" in done.stderr and "libips" not in done.stderr


@pytest.mark.parametrize("filtered", [False, True], ids=["plain", "seccomp"])
def test_two_preloads_in_an_environment(trace, tmp_path, filtered):
    """A program executes another with two entries LD_PRELOAD, of which the second
    is long. Would catch: room made for the first and the second copied into it."""
    source = tmp_path / "two.c"
    source.write_text("""
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        extern char **environ;
        int main(int argc, char **argv)
        {
            char *args[] = {"true", NULL}, *env[100], longer[argc > 1 ? 8000 : 60000];
            const char *first = getenv("LD_PRELOAD");
            char shorter[4000] = "LD_PRELOAD=";
            int n = 0;
            struct sock_filter f = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
            struct sock_fprog p = {1, &f};
            for (char **e = environ; *e && n < 90; e++)
                if (strncmp(*e, "LD_PRELOAD=", 11))
                    env[n++] = *e;
            memset(longer, ':', sizeof(longer));
            memcpy(longer, "LD_PRELOAD=", 11);
            if (first)
                strcpy(longer + sizeof(longer) - strlen(first) - 1, first);
            longer[sizeof(longer) - 1] = 0;
            env[n++] = shorter;
            env[n++] = longer;
            env[n] = NULL;
            if (argc > 1 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
                             prctl(PR_SET_SECCOMP, 2, &p)))
                return 9;
            execve("/bin/true", args, env);
            return 8;
        }""")
    two = tmp_path / "two"
    subprocess.run(["cc", "-w", "-o", two, source], check=True)
    r = trace([two, "filtered"] if filtered else [two], status=0)
    assert r.count("START", a=3) == (1 if filtered else 2)  # true loads us, or not
