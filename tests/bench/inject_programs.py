"""The unmodified programs that `tests/bench/run inject` delays: for each a command
of the shell whose end is the end of all that matters, what tells two processes of
one program apart (ARGS: how a word of the command line ends), and its files.
Each has work that decides when it ends, and work beside it that does not."""
import os
import pwd
import random
import signal
import subprocess
import time

from overhead import PG_BIN, free_port


class Scenario:
    needs, args = (), ()
    only = None  # places in this program alone

    def __init__(self, directory):
        self.directory = directory

    def file(self, name, text):
        with open(os.path.join(self.directory, name), "w") as f:
            f.write(text)

    def numbers(self, name, count):
        draw = random.Random(count)
        self.file(name, "".join("%d\n" % draw.randrange(count)
                                for _ in range(count)))

    def begin(self):
        pass


class Pipelines(Scenario):
    """Two pipelines at once, one of them done early."""
    name, needs = "sort | uniq", ("sort", "uniq")
    args = ("small.txt", "big.txt", "-c", "-d", "-l", "-1")
    command = ("(sort small.txt | uniq -d | wc -l) & "
               "sort big.txt | uniq -c | tail -1; wait")

    def __init__(self, directory):
        super().__init__(directory)
        self.numbers("small.txt", 12000)
        self.numbers("big.txt", 100000)


class Archive(Scenario):
    """gzip decides, tar is ahead of it."""
    name, needs = "tar | gzip", ("tar", "gzip")
    command = "tar cf - files | gzip -6 | wc -c"

    def __init__(self, directory):
        super().__init__(directory)
        os.mkdir(directory + "/files")
        for i in range(60):
            self.numbers("files/%d" % i, 9000 + i)


class Make(Scenario):
    """Of two compilations one takes longer, then both are linked."""
    name, needs = "make -j2", ("make", "gcc")
    args = ("big.c", "small.c", "big.o", "small.o", "program")
    command = "make -s -j2"

    def __init__(self, directory):
        super().__init__(directory)
        for name, count in (("big", 400), ("small", 40)):
            self.file(name + ".c", "".join(
                "int %s%d(int *a, int n) { int s = %d; for (int i = 0; i < n; "
                "i++) { if (a[i] > s) s += a[i] * %d; else s ^= a[i] << 2; } "
                "return s; }\n" % (name, i, i, i + 3) for i in range(count)) +
                ("int main(void) { return 0; }\n" if name == "big" else ""))
        self.file("Makefile", "program: big.o small.o\n\tgcc -o $@ $^\n"
                  "%.o: %.c\n\tgcc -O1 -c -o $@ $<\n")

    def begin(self):
        for name in ("big.o", "small.o", "program"):
            if os.path.exists(os.path.join(self.directory, name)):
                os.unlink(os.path.join(self.directory, name))


class Redis(Scenario):
    """Two clients, one of them with more to ask."""
    name, needs = "Redis", ("redis-server", "redis-benchmark")
    args = ("200", "800", "shutdown")
    command = (
        "redis-server --port 0 --unixsocket s --save '' --appendonly no & "
        "until redis-cli -s s ping; do :; done; "
        "redis-benchmark -s s -t set -q -c 1 -n 200 & other=$!; "
        "redis-benchmark -s s -t set -q -c 1 -n 800; wait $other; "
        "redis-cli -s s shutdown; wait")


class Python(Scenario):
    """A parent that hands rounds of work to two children over pipes."""
    name, needs = "python3", ("python3",)
    args = ("parent.py", "long", "short")
    command = "python3 parent.py"

    def __init__(self, directory):
        super().__init__(directory)
        self.file("parent.py", """
import subprocess
P = subprocess.PIPE
both = [subprocess.Popen(["python3", "child.py", name], stdin=P, stdout=P,
                         bufsize=0) for name in ("long", "short")]
for i in range(40):
    for p in both:
        p.stdin.write(b"%d\\n" % i)
    for p in both:
        p.stdout.readline()
for p in both:
    p.stdin.close()
    p.wait()
""")
        self.file("child.py", """
import os, sys
n = {"long": 60000, "short": 15000}[sys.argv[1]]
while os.read(0, 100):
    sum(i * i for i in range(n))
    os.write(1, b"done\\n")
""")


class Nginx(Scenario):
    """Two clients, one of them with more to ask; the server outlives them."""
    name, needs = "nginx", ("nginx", "ab")
    args = ("one", "two", "quit")

    def __init__(self, directory):
        super().__init__(directory)
        port = free_port()
        os.mkdir(directory + "/www")
        for name in ("one", "two"):
            self.file("www/" + name, "x" * 1000)
        self.file("nginx.conf", """
daemon off; worker_processes 1; pid %(d)s/nginx.pid; user www-data;
error_log %(d)s/error.log; events { worker_connections 256; }
http {
  access_log off; client_body_temp_path %(d)s/t1; proxy_temp_path %(d)s/t2;
  fastcgi_temp_path %(d)s/t3; uwsgi_temp_path %(d)s/t4; scgi_temp_path %(d)s/t5;
  server { listen 127.0.0.1:%(p)d; root %(d)s/www; }
}
""" % {"d": directory, "p": port})
        self.command = (
            "nginx -p %(d)s -c nginx.conf -e error.log & "
            "until ab -q -n 1 http://127.0.0.1:%(p)d/ready; do :; done; "
            "ab -q -n 100 -c 1 http://127.0.0.1:%(p)d/two & other=$!; "
            "ab -q -n 400 -c 1 http://127.0.0.1:%(p)d/one; wait $other; "
            "nginx -p %(d)s -c nginx.conf -e error.log -s quit; wait" %
            {"d": directory, "p": port})


class Postgres(Scenario):
    """Two clients, one of them with more to ask, each with a backend of its own:
    a child of the server, which is told by the title that it gives itself."""
    only = "postgres"
    name, needs = "PostgreSQL", (PG_BIN + "/postgres", "psql", "setpriv")
    args = ("*: long ", "*: short ", "long.sql", "short.sql", "data")
    turns = {"short": 40, "long": 200}

    def __init__(self, directory):
        super().__init__(directory)
        data, sock = directory + "/data", directory + "/sock"
        user, port = [], free_port()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
                 "stdin": subprocess.DEVNULL, "cwd": "/"}
        for path in (data, sock):
            os.mkdir(path)
        if os.geteuid() == 0:
            user = ["setpriv", "--reuid=postgres", "--regid=postgres",
                    "--clear-groups"]
            account = pwd.getpwnam("postgres")
            for path in (data, sock):
                os.chown(path, account.pw_uid, account.pw_gid)
        subprocess.run([*user, PG_BIN + "/initdb", "-D", data, "-A", "trust",
                        "-U", "postgres", "-E", "UTF8", "--no-locale", "-N"],
                       check=True, **quiet)
        with open(data + "/postgresql.conf", "a") as f:
            f.write(f"listen_addresses = ''\nport = {port}\n"
                    f"unix_socket_directories = '{sock}'\nfsync = off\n"
                    "shared_buffers = 16MB\nautovacuum = off\n"
                    "log_min_messages = fatal\n")
        server = [*user, PG_BIN + "/postgres", "-D", data]
        at = ["-h", sock, "-p", str(port)]
        made = subprocess.Popen(server, **quiet)
        try:
            for _ in range(200):
                if subprocess.call(["pg_isready", "-q", *at], **quiet) == 0:
                    break
                time.sleep(0.05)
            subprocess.run(["psql", *at, "-U", "postgres", "-c",
                            "create role long superuser login", "-c",
                            "create role short superuser login", "-c",
                            "create table t as select i as id, i * 7 as n from "
                            "generate_series(1, 5000) i"],
                           check=True, **quiet)
        finally:
            made.send_signal(signal.SIGINT)
            made.wait(30)
        ask = {who: f"psql -h {sock} -p {port} -U {who} -d postgres -qAtX -f "
                    f"{who}.sql | md5sum" for who in self.turns}
        for who, turns in self.turns.items():
            self.file(who + ".sql", "".join(
                f"select sum(n) from t where id % {i} = 1;\n"
                for i in range(2, turns + 2)))
        self.command = (
            f"{' '.join(server)} 2>server.log & "
            f"until pg_isready -q -U postgres -h {sock} -p {port}; do :; done; "
            f"{ask['short']} & other=$!; {ask['long']}; wait $other; "
            f"kill -INT $(head -1 {data}/postmaster.pid); wait")


SCENARIOS = (Pipelines, Archive, Make, Redis, Python, Nginx, Postgres)
