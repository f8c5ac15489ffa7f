"""Programs whose own library defines functions and variables with names that the C
library has, too, and that we stand in front of: with other parameters, another result,
of another kind. Their calls reach that library as without us.

Would catch: a wrapper that takes such a call for one of the C library's function; a
wrapper that calls the program's function where it means the C library's.
"""
import platform
import re
import subprocess
import sys

import pytest

from conftest import ROOT, clean_env, give_clock

sys.path.insert(0, str(ROOT / "tests" / "oracle"))

import pool_format  # noqa: E402

HEADER = r"""
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
struct pair { double x, y; };
struct mixed { long n; double d; };
struct large { double at[9]; long n; };
double splice(double a, double b, struct pair p, float c);
struct large tee(int a, double b, long c, struct large l, int d, int e, int f, int g,
                 double h, struct mixed m);
struct pair listen(double x, double y);
struct mixed pause(const struct mixed *m);
long double fsync(long double a, int b);
int send(const char *format, ...);
double connect(double a, double b, double c, double d, double e, double f, double g,
               double h, double i, double j, int k, int l, int m, int n, int o, int p,
               int q, int r);
double fcntl(double a), fstat(double a), open(double a), close(double a);
double execve(double a), _exit(double a), vsyslog(double a), syscall(double a);
double vfork(double a), sigaction(double a), read(double a), dup(double a);
double pthread_create(double a), pthread_mutex_lock(double a), poll(double a);
double __cxa_at_quick_exit(double a), open64(double a), __read(double a);
extern int sync, select[3];
extern const char *kill;
int use(void);
#ifdef __cplusplus
}
#endif
"""

OWN = r"""
#include <stdarg.h>
#include "names.h"
int sync = 41, select[3] = {1, 2, 3};
const char *kill = "killed";
double splice(double a, double b, struct pair p, float c) {
    return a + 10 * b + 100 * p.x + 1000 * p.y + 10000 * c;
}
struct large tee(int a, double b, long c, struct large l, int d, int e, int f, int g,
                 double h, struct mixed m) {
    l.at[0] += a + b * c + d + e + f + g;
    l.at[8] += h + m.d;
    l.n += m.n;
    return l;
}
struct pair listen(double x, double y) { return (struct pair){y, x}; }
struct mixed pause(const struct mixed *m) { return (struct mixed){m->n + 1, m->d / 2}; }
long double fsync(long double a, int b) { return a / b; }
int send(const char *format, ...) {
    va_list ap;
    double sum = 0;
    va_start(ap, format);
    for (; *format; format++)
        sum += *format == 'd' ? va_arg(ap, double) : va_arg(ap, int);
    va_end(ap);
    return (int)sum;
}
double connect(double a, double b, double c, double d, double e, double f, double g,
               double h, double i, double j, int k, int l, int m, int n, int o, int p,
               int q, int r) {
    return a + b + c + d + e + f + g + h - i - j + k + l + m + n + o + p - q - r;
}
#define F(name, add) double name(double a) { return a + add; }
F(fcntl, 1) F(fstat, 2) F(open, 3) F(close, 4) F(execve, 5) F(_exit, 6) F(vsyslog, 7)
F(syscall, 8) F(vfork, 9) F(sigaction, 10) F(read, 11) F(dup, 12) F(pthread_create, 13)
F(pthread_mutex_lock, 14) F(poll, 15) F(__cxa_at_quick_exit, 16) F(open64, 17)
F(__read, 18)
"""

# Calls them by the loader's table, by pointers that the loader puts into data, and
# before main and any of our code has run.
USER = r"""
#include <stdio.h>
#include "names.h"
static double (*const volatile table[])(double) = {
    fcntl, fstat, open, close, execve, _exit, vsyslog, syscall, vfork, sigaction, read,
    dup, pthread_create, pthread_mutex_lock, poll, __cxa_at_quick_exit, open64, __read};
static const int *const volatile number = &select[2];
static double early;
static void __attribute__((constructor)) begin(void) {
    struct pair p = {3, 4};
    early = splice(1, 2, p, 5) + fstat(0.5);
}
int use(void) {
    struct pair p = {3, 4}, q = listen(1.5, 2.5);
    struct mixed m = {7, 0.25}, n = pause(&m);
    struct large l = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, 10};
    l = tee(1, 2.5, 3, l, 4, 5, 6, 7, 8.5, m);
    printf("%g %g %g %g %ld %g\n", early, splice(1, 2, p, 5), q.x, q.y, n.n, n.d);
    printf("%g %g %g %ld %Lg\n", l.at[0], l.at[1], l.at[8], l.n, fsync(10.0L, 4));
    printf("%d %d\n", send("didddddddddi", 1.5, 2, 3., 4., 5., 6., 7., 8., 9., 10., 11., 12),
           send(""));
    printf("%g\n", connect(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18));
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        printf("%g ", table[i](0.5));
    printf("%g %g %g %g %d %d %d %s\n", read(1), open64(1), syscall(1), vfork(1), sync,
           select[1], *number, kill);
    return sync++;
}
"""

# The C library's own functions do what they did: those that others of ours call, too.
MAIN = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "names.h"
int system(const char *);
int socketpair(int, int, int, int *);
int pipe(int *);
long write(int, const void *, unsigned long), readv(int, const void *, int);
int dup2(int, int), sem_wait(void *), execl(const char *, const char *, ...);
int main(int argc, char **argv) {
    int fd[2];
    char text[8] = "";
    struct { void *at; unsigned long n; } v = {text, 7};
    if (argc > 1 && !strcmp(argv[1], "end")) return puts("end"), 7;
    use();
    printf("%d %g\n", sync, splice(1, 2, (struct pair){3, 4}, 5));
    printf("%d\n", dlsym(RTLD_DEFAULT, "splice") == (void *)splice);
    printf("%d\n", pipe(fd) || write(fd[1], "pipe", 4) != 4 || readv(fd[0], &v, 1) != 4);
    puts(text);
    printf("%d\n", socketpair(1, 1, 0, fd) || write(fd[1], "socket", 6) != 6 ||
                       readv(fd[0], &v, 1) != 6 || dup2(fd[0], fd[1]) != fd[1]);
    puts(text);
    FILE *f = fopen(argv[0], "r"), *p = popen("echo popen; exit 3", "r");
    printf("%d %d", fgetc(f), fclose(f));
    printf(" %s", fgets(text, 7, p));
    printf(" %d %d\n", pclose(p), system("exit 4"));
    fflush(stdout);
    execl(argv[0], argv[0], "end", (char *)NULL);
    return 1;
}
"""

MAIN_CXX = r"""
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include "cxx.h"
int main() {
    thread_local std::string name = "a name";
    try {
        accept(name, 1.5, [](double d) { throw std::runtime_error(std::to_string(d)); });
    } catch (const std::exception &e) {
        std::cout << e.what() << std::endl;
    }
    std::thread([] { std::cout << shutdown({"by", "value"}, 2.5).second << std::endl; }).join();
    std::cout << epoll_wait() << std::endl;
}
"""
CXX_HEADER = r"""
#pragma once
#include <functional>
#include <string>
#include <utility>
extern "C" {
void accept(const std::string &name, double d, const std::function<void(double)> &f);
std::pair<std::string, std::string> shutdown(std::pair<std::string, std::string> p, double d);
const std::string &epoll_wait();
}
"""
OWN_CXX = r"""
#include "cxx.h"
void accept(const std::string &name, double d, const std::function<void(double)> &f) {
    f(d + name.size());
}
std::pair<std::string, std::string> shutdown(std::pair<std::string, std::string> p, double d) {
    return {p.second, p.first + std::to_string(d)};
}
static const std::string slept = [] { return shutdown({"", "static"}, 0).first; }();
const std::string &epoll_wait() { return slept; }
"""

PYTHON = r"""
import ctypes, os, sys
own = ctypes.CDLL(sys.argv[1])
own.splice.restype = own.read.restype = ctypes.c_double
class Pair(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double)]
own.splice.argtypes = [ctypes.c_double, ctypes.c_double, Pair, ctypes.c_float]
own.read.argtypes = [ctypes.c_double]
own.listen.argtypes, own.listen.restype = [ctypes.c_double] * 2, Pair
p = own.listen(1, 2)
print(own.splice(1, 2, Pair(3, 4), 5), own.read(1), p.x, p.y,
      ctypes.c_int.in_dll(own, "sync").value, flush=True)
user = ctypes.CDLL(sys.argv[2], os.RTLD_NOW | os.RTLD_DEEPBIND)
print(user.use(), flush=True)
r, w = os.pipe()
print(os.write(w, b"text"), os.read(r, 9))
"""


def compiled(compiler, output, *words):
    subprocess.run([compiler, "-w", "-fno-builtin", "-o", str(output), *map(str, words)],
                   check=True)
    return output


@pytest.fixture
def made(build, tmp_path):
    """Sources and the directory; libraries find each other there."""
    for name, text in (("names.h", HEADER), ("own.c", OWN), ("user.c", USER),
                       ("main.c", MAIN), ("cxx.h", CXX_HEADER), ("own.cc", OWN_CXX),
                       ("main.cc", MAIN_CXX), ("p.py", PYTHON)):
        (tmp_path / name).write_text(text)
    give_clock(build, tmp_path / "pool")
    return tmp_path


def libraries(made, *options):
    own = compiled("gcc", made / "libown.so", "-shared", "-fPIC", *options, made / "own.c")
    user = compiled("gcc", made / "libuser.so", "-shared", "-fPIC", *options,
                    made / "user.c", own, f"-Wl,-rpath,{made}")
    return own, user


def same(build, made, *argv, **more):
    """The program's status and output with us are those without."""
    def run(*words):
        env = clean_env(IPS_POOL_ROOT=made / "pool", IPS_STATE=made / "state", **more)
        done = subprocess.run([*map(str, words), *map(str, argv)], env=env, text=True,
                              capture_output=True, timeout=20)
        return done.returncode, done.stdout, done.stderr

    bare = run()
    assert bare[0] >= 0 and bare[1], bare
    assert run(build.bin("ipsrun"), "--no-daemons", "--quiet", "--") == bare
    return bare


@pytest.mark.parametrize("order", ["own-first", "user-first"])
@pytest.mark.parametrize("options", [
    ["-Wl,-z,now", "-Wl,-z,relro"], ["-Wl,-z,lazy", "-Wl,-z,norelro"],
    ["-Wl,-z,lazy", "-no-pie"], ["-Wl,-z,now", "-Wl,--hash-style=sysv"],
    ["-Wl,-z,now", "-fno-plt", "-O2"]],
    ids=["now", "lazy", "no-pie", "sysv-hash", "no-plt"])
def test_c(build, made, options, order):
    """Bound at once and at the first call, in both orders of the two libraries, with
    tables that the loader write-protects and without."""
    shared = [o for o in options if o != "-no-pie"]
    own, user = libraries(made, *shared)
    program = compiled("gcc", made / "program", *options, made / "main.c",
                       *([own, user] if order == "own-first" else [user, own]),
                       f"-Wl,-rpath,{made}")
    assert same(build, made, program)[0] == 7


def test_versioned(build, made):
    """The library has versions of its own and is found behind the C library; who means
    the C library's function gets that."""
    (made / "map").write_text("OWN_1 { global: *; };\n")
    own, user = libraries(made, "-Wl,-z,now", f"-Wl,--version-script={made / 'map'}")
    other = made / "other.c"
    other.write_text('#include <unistd.h>\nint other(void) { int f = dup(1);'
                     ' return f > 2 && !close(f); }\n')
    lib = compiled("gcc", made / "libother.so", "-shared", "-fPIC", "-Wl,-z,now", other)
    (made / "main2.c").write_text('#include <stdio.h>\nint use(void), other(void);\n'
                                  'int main(void) { use(); return 10 + other(); }\n')
    program = compiled("gcc", made / "program", made / "main2.c", lib, user, own,
                       f"-Wl,-rpath,{made}")
    assert same(build, made, program)[0] == 11


def test_cxx(build, made):
    """Objects by reference and by value, exceptions, constructors before main."""
    cxx = compiled("g++", made / "libcxx.so", "-shared", "-fPIC", "-Wl,-z,now",
                   made / "own.cc")
    program = compiled("g++", made / "program", made / "main.cc", cxx,
                       f"-Wl,-rpath,{made}")
    assert "static" in same(build, made, program)[1]


def test_python(build, made):
    """ctypes opens the libraries."""
    own, user = libraries(made, "-Wl,-z,now")
    assert "b'text'" in same(build, made, sys.executable, made / "p.py", own, user)[1]


def test_a_preload_behind_us(build, made):
    """A preloaded library is none of the program's: what it defines is the next of
    the C library's functions, and calls go through us."""
    (made / "next.c").write_text("""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <string.h>
        long write(int fd, const void *b, unsigned long n) {
            return ((long (*)(int, const void *, unsigned long))dlsym(RTLD_NEXT, "write"))(
                fd, n == 3 ? "by next" : b, n == 3 ? 7 : n);
        }""")
    (made / "writes.c").write_text('int main(void) { return write(1, "abc", 3); }\n')
    behind = compiled("gcc", made / "next.so", "-shared", "-fPIC", made / "next.c")
    program = compiled("gcc", made / "writes", made / "writes.c")
    done = subprocess.run([program], text=True, capture_output=True, timeout=20,
                          env=clean_env(LD_PRELOAD=f"{build.lib('libips-preload.so')}:{behind}",
                                        LD_BIND_NOW="1", LD_DEBUG="bindings"))
    assert done.returncode == 7 and done.stdout == "by next"
    assert re.search(r"/writes \[0\] to \S*libips-preload.so \[0\]: normal symbol `write'",
                     done.stderr)


@pytest.mark.parametrize("argv", [["/lib64/ld-linux-x86-64.so.2", "libc"], ["libc"]],
                         ids=["by the loader", "itself"])
def test_the_c_library_as_program(build, made, argv):
    """It says its version. Would catch: the real functions not found, since they are
    not behind us but in the program."""
    libc = re.search(r"=> (\S+/libc.so.6)", subprocess.run(
        ["ldd", "/bin/true"], text=True, capture_output=True, check=True).stdout)[1]
    bare = same(build, made, *(libc if a == "libc" else a for a in argv))
    assert bare[0] == 0 and "GNU C Library" in bare[1]


PASSES_ON = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
long %s(int fd, const void *p, unsigned long n, int flags) {
    long (*next)(int, const void *, unsigned long, int) =
        (long (*)(int, const void *, unsigned long, int))dlsym(RTLD_NEXT, "%s");
    return next(fd, p, n, flags);
}
"""
SENDS = r"""
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
    int fd[2];
    char text[8];
    socketpair(AF_UNIX, SOCK_STREAM, 0, fd);
    printf("%d", (int)send(fd[0], "some", 4, 0));
    return printf(" %d\n", (int)read(fd[1], text, 8)) < 0;
}
"""


@pytest.mark.parametrize("name,unseen", [("send", True), ("other", False)])
def test_what_is_passed_on_is_named(cluster, made, name, unseen):
    """A library of the program that stands before the C library's function and passes
    calls on: these are not recorded, and the certificate says so."""
    c = cluster()
    (made / "on.c").write_text(PASSES_ON % (name, name))
    (made / "sends.c").write_text(SENDS)
    library = compiled("gcc", made / "libon.so", "-shared", "-fPIC", made / "on.c")
    program = compiled("gcc", made / "sends", made / "sends.c", "-Wl,--no-as-needed",
                       library, f"-Wl,-rpath,{made}")
    assert c.ipsrun([program], name="r").stdout == "4 4\n"
    c.wait_closed("r")
    answer = c.json("path", "r", status=(0, 3))["certificate"]
    assert any(u.startswith("send by libon.so in ") for u in answer["unseen"]) == unseen


# A library that was not linked to the C library asks for no version; a program of before
# 2003 or 2021 for an old one. Then a condition variable is another object, and the signal
# for a thread that has ended is an error.
OLD = r"""
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#ifdef VERSION
#define ASK(name) __asm__(".symver " #name "," #name "@" VERSION)
ASK(pthread_cond_init); ASK(pthread_cond_destroy); ASK(pthread_cond_signal);
ASK(pthread_cond_broadcast); ASK(pthread_cond_wait); ASK(pthread_cond_timedwait);
ASK(pthread_kill);
#endif
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c;
static int turn, waits;
static void *other(void *arg) {
    pthread_mutex_lock(&m);
    for (int i = 0; i < 200; i++) {
        while (turn % 2 == 0)
            pthread_cond_wait(&c, &m);
        turn++;
        pthread_cond_signal(&c);
    }
    pthread_mutex_unlock(&m);
    return arg;
}
int old(void) {
    pthread_t t;
    struct timespec soon;
    pthread_cond_init(&c, NULL);
    pthread_create(&t, NULL, other, NULL);
    pthread_mutex_lock(&m);
    for (int i = 0; i < 200; i++) {
        turn++;
        pthread_cond_broadcast(&c);
        while (turn % 2)
            waits += pthread_cond_wait(&c, &m) == 0;
    }
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec = soon.tv_nsec / 2 + 100000000;
    soon.tv_sec -= 10;
    printf("%d", pthread_cond_timedwait(&c, &m, &soon) == ETIMEDOUT);
    pthread_mutex_unlock(&m);
    struct timespec pause = {0, 100000000};
    nanosleep(&pause, NULL);
    printf(" %d", pthread_kill(t, 0));
    pthread_join(t, NULL);
    printf(" %d %d %d\n", turn, waits > 0, pthread_cond_destroy(&c));
    return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no such old versions elsewhere")
@pytest.mark.parametrize("kind,gone", [("new", 0), ("old", 3), ("none", 3)])
def test_old_versions(build, made, kind, gone):
    """Would catch: a new condition variable's function called with an old one's object;
    a program that asks whether a thread lives told otherwise."""
    (made / "old.c").write_text(OLD)
    (made / "run.c").write_text("int old(void); int main(void) { return old(); }")
    how = {"new": [], "old": ['-DVERSION="GLIBC_2.2.5"'], "none": ["-nostdlib"]}[kind]
    library = compiled("gcc", made / "libold.so", "-shared", "-fPIC", *how, made / "old.c")
    program = compiled("gcc", made / "run", made / "run.c", library, f"-Wl,-rpath,{made}")
    assert same(build, made, program)[1] == f"1 {gone} 400 1 0\n"


OLD_LIST = r"""
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef VERSION
__asm__(".symver lio_listio,lio_listio@" VERSION);
#endif
int main(int argc, char **argv) {
    static char text[10];
    int p[2];
    sigset_t usr1;
    struct timespec now = {0, 0};
    struct aiocb a = {.aio_buf = text, .aio_nbytes = 1, .aio_lio_opcode = LIO_READ,
                      .aio_sigevent = {.sigev_notify = SIGEV_SIGNAL,
                                       .sigev_signo = SIGUSR1}};
    struct aiocb *list[] = {&a};
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    if (pipe(p) || (!LATE && write(p[1], "x", 1) != 1))
        return 1;
    a.aio_fildes = p[0];
    printf("%d ", lio_listio(LIO_WAIT, list, 1, NULL));
    if (LATE && write(p[1], "x", 1) != 1)
        return 1;
    while (aio_error(&a) == EINPROGRESS)
        sched_yield();
    printf("%d %s ", (int)aio_return(&a), text);
    printf("%d\n", LATE || sigtimedwait(&usr1, NULL, &now) == SIGUSR1);
    return 0;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no such old versions elsewhere")
@pytest.mark.parametrize("version", [None, "GLIBC_2.4", "GLIBC_2.2.5"])
def test_old_lists_of_requests(build, made, version):
    """Would catch: a program that was linked before glibc 2.34 and whose lio_listio is not
    ours; one linked before 2.4 that gets a newer one, which waits for ever: the oldest returns
    before the requests are done, and only then is there a byte to read."""
    (made / "list.c").write_text(OLD_LIST)
    how = [f"-DLATE={int(version == 'GLIBC_2.2.5')}"]
    how += [f'-DVERSION="{version}"'] if version else []
    program = compiled("gcc", made / "list", *how, made / "list.c")
    assert same(build, made, program)[1] == "0 1 x 1\n"
    run, = [p for p in (made / "pool").iterdir() if p.is_dir()]
    received = [r["result"] for s in pool_format.load().segments(run) for r in s.records
                if r["type"].startswith("RECV")]
    assert received == [1]
