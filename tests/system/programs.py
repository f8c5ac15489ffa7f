"""Real programs to measure: each is a directory made ready for one run and a
command line that starts everything in it (server, client) and stops it again,
printing what can be compared with a bare run.

    prog = programs.REDIS.make(directory, clients=1, requests=100)
    prog.argv        # run it, under ipsrun or bare
    prog.normal(out) # standard output with timings and ports taken out

Everything listens on loopback, on ports found free, below `directory`. Servers
are stopped by the driver script itself; `Program.clean()` kills by recorded pid
what a failed run left behind.
"""

import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PG_BIN = "/usr/lib/postgresql/15/bin"


NEEDED = ["redis-server", "redis-benchmark", "nginx", "curl", "memcached",
          "pgbench", "strace", "make", "gcc", "setpriv", "awk"]


# Threads that a library starts past the interposer and that move no bytes:
# jemalloc looks pthread_create up in the next library.
SILENT = {"redis-server"}


# Their processes outlive those that would wait for them, so wait4 of the whole
# tree does not have their CPU.
ORPHANS = {"tee"}


def missing():
    where = os.environ.get("PATH", "") + ":/usr/sbin"
    return [n for n in NEEDED if shutil.which(n, path=where) is None]


def new_directory():
    """One that other users can reach, as the programs that change user must;
    pytest's own are closed to them. Program.clean() removes it."""
    directory = tempfile.mkdtemp(prefix="ips-test-")
    os.chmod(directory, 0o755)
    return directory


def make(name, small):
    """ALL[name] made ready in a new directory."""
    return ALL[name](new_directory(), small)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Program:
    def __init__(self, directory, name, script, normal=None, env=None):
        self.directory = str(directory)
        self.name = name
        self.env = env or {}
        self.normal = normal or (lambda out: out)
        self.script = os.path.join(self.directory, "drive.sh")
        with open(self.script, "w") as f:
            f.write("set -u\ncd %s\n" % shlex.quote(self.directory) + script)
        self.argv = ["bash", self.script]

    def clean(self):
        """Ends servers that a failed run left - those whose pid the driver
        wrote down and whose directory is ours - and removes the directory."""
        for name in os.listdir(self.directory):
            if not name.endswith(".pid"):
                continue
            try:
                with open(os.path.join(self.directory, name)) as f:
                    pid = int(f.read().split()[0])
                cwd = os.readlink("/proc/%d/cwd" % pid)
            except (OSError, ValueError, IndexError):
                continue
            if cwd.startswith(self.directory):
                end(pid)
        shutil.rmtree(self.directory, ignore_errors=True)


def end(pid):
    """Asks first: PostgreSQL killed leaves its shared memory behind."""
    try:
        os.kill(pid, signal.SIGQUIT)
        for _ in range(40):
            time.sleep(0.05)
            os.kill(pid, 0)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def numbers_out(out):
    """Timings, rates and counts of seconds differ from run to run; words and
    shape do not."""
    out = re.sub(r"\r[^\n\r]*(?=\r)", "", out)  # progress, overwritten
    # redis-benchmark says "inf" of what took less than its clock tells
    return re.sub(r"\d+(\.\d+)?|\binf\b", "N", out)


WAIT = """
await() { # until the command succeeds, ten seconds at most
    for _ in $(seq 200); do
        "$@" >/dev/null 2>&1 </dev/null && return 0
        sleep 0.05
    done
    echo "not ready: $*"; exit 9
}
"""


def redis(directory, clients=1, requests=1000, unix=False):
    port = free_port()
    where = "-s %s/redis.sock" % directory if unix else "-p %d" % port
    listen = ("--port 0 --unixsocket %s/redis.sock" % directory if unix
              else "--port %d --bind 127.0.0.1" % port)
    return Program(directory, "redis-c%d%s" % (clients, "-unix" * unix), WAIT +
                   """
redis-server %s --save '' --appendonly no --dir . --logfile log &
echo $! >server.pid
await redis-cli %s ping
redis-benchmark %s -t set -n %d -c %d -q
echo "benchmark $?"
redis-cli %s dbsize
redis-cli %s shutdown nosave
wait $(cat server.pid); echo "server $?"
""" % (listen, where, where, requests, clients, where, where),
                   lambda out: re.sub(r"\s+", " ", numbers_out(
                       re.sub(r"(?m)^.*overall: [^\r\n]*[\r\n]", "", out))))


def nginx(directory, requests=50, parallel=4):
    port = free_port()
    directory = str(directory)
    os.chmod(directory, 0o755)
    os.makedirs(directory + "/www", exist_ok=True)
    with open(directory + "/www/small", "w") as f:
        f.write("x" * 1000 + "\n")
    with open(directory + "/www/large", "w") as f:
        f.write("y" * 300000 + "\n")
    with open(directory + "/nginx.conf", "w") as f:
        f.write("""
daemon off; worker_processes 2; pid %(d)s/nginx.pid; user www-data;
error_log %(d)s/error.log;
events { worker_connections 64; }
http {
  access_log %(d)s/access.log; sendfile on;
  client_body_temp_path %(d)s/t1; proxy_temp_path %(d)s/t2;
  fastcgi_temp_path %(d)s/t3; uwsgi_temp_path %(d)s/t4; scgi_temp_path %(d)s/t5;
  server { listen 127.0.0.1:%(p)d; root %(d)s/www; }
}
""" % {"d": directory, "p": port})
    return Program(directory, "nginx", WAIT + """
nginx -p . -c nginx.conf -e error.log &
echo $! >server.pid
url=http://127.0.0.1:%d
await curl -sf -o /dev/null $url/small
for i in $(seq %d); do curl -sf $url/small || echo failed; done | cksum
seq %d | xargs -P %d -I{} curl -sf -o /dev/null -w '%%{http_code} %%{size_download}\\n' $url/large | sort | uniq -c
curl -sf $url/small $url/large $url/small | cksum
curl -s -o /dev/null -w '%%{http_code}\\n' $url/none
kill -QUIT $(cat server.pid); wait $(cat server.pid); echo "server $?"
""" % (port, requests // 2, requests - requests // 2, parallel))


MEMCACHED_CLIENT = """
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
conns = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
files = [c.makefile("rwb") for c in conns]
for i in range(count):
    f = files[i % 3]
    value = b"v" * (i * 37 % 5000)
    f.write(b"set k%d 0 0 %d\\r\\n%s\\r\\n" % (i, len(value), value)); f.flush()
    assert f.readline() == b"STORED\\r\\n"
    f.write(b"get k%d\\r\\n" % i); f.flush()
    head = f.readline().split()
    assert f.read(int(head[3]) + 2) == value + b"\\r\\n" and f.readline() == b"END\\r\\n"
print("sets and gets", count)
for f in files: f.close()
for c in conns: c.close()
"""


def memcached(directory, requests=50):
    port = free_port()
    with open(os.path.join(str(directory), "client.py"), "w") as f:
        f.write(MEMCACHED_CLIENT)
    return Program(directory, "memcached", WAIT + """
memcached -l 127.0.0.1 -p %d -U 0 -t 2 -u nobody &
echo $! >server.pid
await /usr/bin/python3 client.py %d 1
/usr/bin/python3 client.py %d %d
echo "client $?"
kill -TERM $(cat server.pid); wait $(cat server.pid); echo "server $?"
""" % (port, port, port, requests))


def as_postgres():
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres",
            "--clear-groups"]


def postgres(directory, transactions=20, clients=2):
    """initdb and the tables are made bare, beforehand: they take longer than
    all that is measured."""
    port = free_port()
    directory = str(directory)
    data = directory + "/data"
    user = as_postgres()
    os.chmod(directory, 0o755)
    os.makedirs(data, exist_ok=True)
    os.makedirs(directory + "/sock", exist_ok=True)
    if user:
        account = pwd.getpwnam("postgres")
        for path in (data, directory + "/sock"):
            os.chown(path, account.pw_uid, account.pw_gid)
    quiet = {"stdout": subprocess.DEVNULL, "cwd": "/"}
    # initdb's own probing of limits is most of its time.
    subprocess.run(user + [PG_BIN + "/initdb", "-D", data, "-A", "trust", "-U",
                           "postgres", "-E", "UTF8", "--no-locale", "-N"],
                   check=True, **quiet)
    with open(data + "/postgresql.conf", "a") as f:
        f.write("""
listen_addresses = '127.0.0.1'
port = %d
unix_socket_directories = '%s/sock'
fsync = off
shared_buffers = 8MB
max_connections = 10
autovacuum = off
log_min_messages = fatal
""" % (port, directory))
    server = user + [PG_BIN + "/postgres", "-D", data]
    made = subprocess.Popen(server, stderr=subprocess.DEVNULL, **quiet)
    try:
        ask = ["pgbench", "-h", directory + "/sock", "-p", str(port), "-U",
               "postgres"]
        for _ in range(100):
            if subprocess.call(["pg_isready", "-q", "-h", directory + "/sock",
                                "-p", str(port)], **quiet) == 0:
                break
            time.sleep(0.05)
        subprocess.run(ask + ["-i", "-q", "postgres"], check=True,
                       stderr=subprocess.DEVNULL, **quiet)
    finally:
        made.send_signal(signal.SIGINT)
        made.wait()
    return Program(directory, "postgres", WAIT + """
%(server)s 2>server.log &
echo $! >server.pid
for host in %(dir)s/sock 127.0.0.1; do
    await pg_isready -q -h $host -p %(port)d
    pgbench -h $host -p %(port)d -U postgres -n -c %(clients)d -t %(n)d postgres 2>&1
    echo "pgbench $?"
done
kill -INT $(cat server.pid); wait $(cat server.pid); echo "server $?"
""" % {"server": shlex.join(server), "dir": directory, "port": port,
       "clients": clients, "n": transactions}, numbers_out)


def pipeline(directory, command, name="pipeline"):
    return Program(directory, name, command + "\necho \"status $?\"\n")


def pipeline_sort(directory, count=200000):
    return pipeline(directory, "seq %d | sort -n | uniq | tail -n 3 | cat"
                    % count)


def pipeline_uniq(directory, count=20000):
    return pipeline(directory, "seq %d | rev | sort | uniq | cksum" % count,
                    "sort-uniq")


def make_project(directory, files=12):
    names = ["part%d" % i for i in range(files)]
    directory = str(directory)
    for i, name in enumerate(names):
        with open("%s/%s.c" % (directory, name), "w") as f:
            f.write("#include <stdio.h>\n#include <stdlib.h>\n"
                    "int %s(int x);\nint %s(int x)\n{\n    return x * %d + 1;"
                    "\n}\n" % (name, name, i + 3))
    with open(directory + "/main.c", "w") as f:
        f.write("#include <stdio.h>\n")
        f.writelines("int %s(int x);\n" % n for n in names)
        f.write("int main(void)\n{\n    int sum = 0;\n")
        f.writelines("    sum += %s(sum %% 100);\n" % n for n in names)
        f.write('    printf("%d\\n", sum);\n    return 0;\n}\n')
    with open(directory + "/Makefile", "w") as f:
        f.write("CC = gcc\nprog: main.o %s\n\t$(CC) -o $@ $^\n"
                "clean:\n\trm -f prog *.o\n" %
                " ".join(n + ".o" for n in names))
    return Program(directory, "make", """
make -s clean
make -j2
echo "make $?"
./prog
""", lambda out: sorted(out.splitlines()))


def mixed(directory):
    """What shells do with pipes: builtins, substitution, coprocesses, FIFOs,
    a writer that dies of SIGPIPE, one that is killed, an empty environment."""
    return Program(directory, "mixed", """
echo "substituted $(echo one; seq 3 | tr '\\n' ' ')"
while read -r a b; do echo "read $b $a"; done < <(printf 'x y\\nz w\\n')
cat <<EOF | tee copy | wc -lc
here is a document
of two lines
EOF
yes | head -n 2; echo "yes ${PIPESTATUS[*]}"
coproc tr a-z A-Z
echo coprocess >&${COPROC[1]}; eval "exec ${COPROC[1]}>&-"
cat <&${COPROC[0]}; wait
mkfifo fifo
(for i in 1 2 3; do echo fifo $i; done >fifo) & cat fifo; wait
seq 100 | env -i /usr/bin/sort -rn | head -n 1
(echo before; kill -9 $BASHPID) | cat; echo "killed ${PIPESTATUS[*]}"
seq 10 | xargs -n 3 echo
dd if=/dev/zero bs=1000 count=300 2>/dev/null | dd bs=70000 2>/dev/null | cksum
timeout 5 sh -c 'seq 5 | paste -s -d,'
{ echo parent; sh -c 'echo child'; echo parent; } | cat
exec 5< <(seq 2); read -u 5 x; cat <&5; echo "$x"
awk 'BEGIN { while (("seq 3" | getline l) > 0) n += l; print n | "cat"; close("cat"); system("echo sys") }'
""")


def tee(directory):
    """md5sum inherits the pipe into wc and never uses it: wc's end-of-file waits
    for md5sum's end. Both outlive tee, whose children they are."""
    return pipeline(directory, "seq 1000 | tee >(wc -l) >(md5sum) | sort | "
                    "tail -n 2", "tee")


PYTHON_MIX = r"""
import multiprocessing, os, select, socket, subprocess, threading, asyncio

def worker(q, n):
    for i in range(n):
        q.send(("m", i, "x" * (i * 100)))
    q.close()

a, b = multiprocessing.get_context("fork").Pipe()
p = multiprocessing.get_context("fork").Process(target=worker, args=(b, 5))
p.start(); b.close()
try:
    while True:
        print(a.recv()[:2])
except EOFError:
    print("eof")
p.join()

print(subprocess.run(["cat"], input=b"through cat", capture_output=True).stdout)
print(subprocess.check_output("echo $((6 * 7)); exit 0", shell=True))
with os.popen("sort", "w") as f:
    f.write("b\na\n")

left, right = socket.socketpair()
r, w = os.pipe()
socket.send_fds(left, [b"fd"], [w])
data, fds, _, _ = socket.recv_fds(right, 10, 1)
os.close(w)
os.write(fds[0], b"passed"); os.close(fds[0])
print(data, os.read(r, 100), os.read(r, 100))

server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
def serve():
    for _ in range(3):
        c, _ = server.accept()
        with c, c.makefile("rwb") as f:
            for line in f:
                f.write(line.upper()); f.flush()
t = threading.Thread(target=serve); t.start()
for i in range(3):
    with socket.create_connection(("127.0.0.1", port)) as c:
        for word in ("one", "two"):
            c.sendall((word + "\n").encode())
            print(c.recv(100, socket.MSG_PEEK), c.recv(100))
        c.shutdown(socket.SHUT_WR)
        print(c.recv(10))
t.join()

async def echo(reader, writer):
    while data := await reader.read(1000):
        writer.write(data); await writer.drain()
    writer.close()
async def main():
    s = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = s.sockets[0].getsockname()[1]
    async def client(n):
        r, w = await asyncio.open_connection("127.0.0.1", port)
        got = 0
        for i in range(4):
            w.write(b"z" * n); await w.drain()
            got += len(await r.readexactly(n))
        w.close(); await w.wait_closed()
        return got
    print(await asyncio.gather(*(client(n) for n in (10, 5000, 200000))))
    s.close()
asyncio.run(main())

big_r, big_w = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(big_r)
    os.write(big_w, b"q" * 300000)
    os._exit(0)
os.close(big_w)
n = 0
while chunk := os.read(big_r, 50000):
    n += len(chunk)
print(n, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
in_r, in_w = os.pipe()
ep = select.epoll(); ep.register(in_r, select.EPOLLIN)
threading.Timer(0.02, lambda: os.writev(in_w, [b"a", b"bc"])).start()
print(ep.poll(), os.readv(in_r, [bytearray(2), bytearray(5)]))
with open("copy", "wb") as f:
    f.write(b"k" * 100000)
with open("copy", "rb") as f:
    def drain():
        n = 0
        while n < 100000:
            n += len(right.recv(30000))
        print("drained", n)
    t = threading.Thread(target=drain); t.start()
    os.sendfile(left.fileno(), f.fileno(), 0, 100000) == 100000 or print("short")
    t.join()
os.posix_spawn("/bin/echo", ["echo", "spawned"], os.environ)
os.wait()
print(os.system("exit 3"))
"""


def python_mix(directory):
    with open(os.path.join(str(directory), "mix.py"), "w") as f:
        f.write(PYTHON_MIX)
    return Program(directory, "python", "/usr/bin/python3 -u mix.py\n"
                   "echo status $?\n",
                   lambda out: re.sub(r"\[\(\d+, 1\)\]", "[ready]", out))


ALL = {
    "tee": lambda d, small: tee(d),
    "mixed": lambda d, small: mixed(d),
    "python": lambda d, small: python_mix(d),
    "redis-c1": lambda d, small: redis(d, 1, 50 if small else 2000),
    "redis-c5": lambda d, small: redis(d, 5, 100 if small else 2000),
    "redis-unix": lambda d, small: redis(d, 2, 50 if small else 2000, True),
    "nginx": lambda d, small: nginx(d, 8 if small else 50),
    "memcached": lambda d, small: memcached(d, 12 if small else 200),
    "postgres": lambda d, small: postgres(d, 3 if small else 20),
    "pipeline": lambda d, small: pipeline_sort(d, 20000 if small else 200000),
    "sort-uniq": lambda d, small: pipeline_uniq(d, 20000),
    "make": lambda d, small: make_project(d, 3 if small else 12),
}


if __name__ == "__main__":  # python3 programs.py NAME DIR [small]
    made = ALL[sys.argv[1]](sys.argv[2], len(sys.argv) > 3)
    print(shlex.join(made.argv))
