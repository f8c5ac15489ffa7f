"""Working copies of the tree for tests/mutate: built, tested apart from all else, and
asked whether a mutation changes what is compiled."""
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutants

ROOMS = ["common", "agent", "analysis", "proto", "slave", "master", "client"]
TEST = re.compile(r"tests/(unit|sim|system)/(\w+/)*test_\w+\.(c|py)$")
# A cast that loses a pointer's type is refused: dev, with -Werror, would refuse it.
STRICT = ["-Werror=incompatible-pointer-types", "-Werror=int-conversion",
          "-Werror=implicit-function-declaration"]
# Nothing but the copy can be written in, and /tmp and /dev/shm are the tests' own.
CELL = """\
mount --bind "$1" "$1" && mount -o remount,bind,ro / || exit 99
for own in /tmp /run /dev/shm; do
    case $1/ in
    "$own"/*) ;;
    *) mount -t tmpfs -o size=6g,mode=1777 own "$own" || exit 99 ;;
    esac
done
ulimit -d $2 # KiB: a mutated size takes no more of the memory than this
cd "$1" && shift 2 && "$@"
exit $?
"""



def quit_with(text, status=1):
    print(text, file=sys.stderr, flush=True)
    os._exit(status)  # from any thread


def digest(*parts):
    made = hashlib.sha256()
    for part in parts:
        made.update(os.fsencode(part) if isinstance(part, str) else part)
        made.update(b"\0")
    return made.hexdigest()[:20]



# --- the tree and its copies -------------------------------------------------


def tree_files(top):
    """Files of the checkout, changes that are not committed too, or of a tree that is
    none."""
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"],
                          cwd=top, capture_output=True)
    if done.returncode == 0 and done.stdout:
        names = {os.fsdecode(n) for n in done.stdout.split(b"\0") if n}
    else:
        names = {str(p.relative_to(top)) for p in top.rglob("*")
                 if not p.is_dir() and p.relative_to(top).parts[0] not in
                 ("build", ".git")}
    return sorted(n for n in names if (top / n).is_file())


def copy_tree(source, names, to):
    """Makes `to` hold these files of `source`; what is the same keeps its time, so that a
    build knows what is old."""
    to.mkdir(parents=True, exist_ok=True)
    for path in list(to.rglob("*")):
        name = path.relative_to(to)
        if name.parts[0] != "build" and not path.is_dir() and str(name) not in names:
            path.unlink()
    for name in names:
        old, new = source / name, to / name
        if not new.is_file() or old.read_bytes() != new.read_bytes():
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(old, new)
            shutil.copymode(old, new)


def sources_of(program):
    """The names of a program's or library's source files."""
    out = subprocess.run(["nm", "-a", program], capture_output=True, text=True).stdout
    return set(re.findall(r"^\S+ a (\S+)$", out, re.M))


class Tree:
    """The sources, and later a copy of them as they were when the run began."""

    def __init__(self, root):
        self.top, self.names = root, tree_files(root)
        self.sources = {n: (root / n).read_text() for n in self.names
                        if n.split("/")[0] in ROOMS and n.endswith((".c", ".h"))}

    def freeze(self, to):
        copy_tree(self.top, set(self.names), to)
        self.top = to
        names = [n for n in self.names if not n.endswith(".md") and "mutate" not in n and
                 "mutant" not in n]
        tests = [n for n in names if TEST.match(n)]
        self.hash = self.digest(names)
        common = self.digest(set(names) - set(tests))
        # of a test: as long as this is the same it passes
        self.test_hash = {n: digest(common, self.digest([n])) for n in tests}
        self.includers = self.find_includers()

    def digest(self, names):
        return digest(*(part for n in sorted(names)
                        for part in (n, (self.top / n).read_bytes())))

    def find_includers(self):
        """{header: the C files that include it, by whatever way}"""
        direct, found = {}, {}
        for name in self.names:
            if name.endswith((".c", ".h", ".def")):
                text = (self.top / name).read_text()
                for inner in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
                    direct.setdefault(inner, set()).add(name)
        for header in direct:
            todo, seen = [header], set()
            while todo:
                for name in direct.get(todo.pop(), ()):
                    if name not in seen:
                        seen.add(name)
                        todo.append(name)
            found[header] = sorted(n for n in seen if n.endswith(".c"))
        return found

    def compiled(self, file):
        """The C files that a change of this one changes: a test may include a C file."""
        return [file] * file.endswith(".c") + self.includers.get(file, [])


class Copy:
    """A working copy with builds of its own, one of them with sanitizers."""

    def __init__(self, tree, work, number):
        self.tree, self.top = tree, work / str(number)
        self.build_dir = self.top / "build" / "mutate"
        self.sanitized_dir = self.top / "build" / "mutate-sanitized"
        self.log = work / f"{number}.log"
        self.linked = {}

    def build(self, *targets, where=None):
        argv = ["cmake", "--build", str(where or self.build_dir)]
        with open(self.log, "ab") as log:
            return subprocess.run(argv + (["--target", *targets] if targets else []),
                                  stdout=log, stderr=log).returncode == 0

    def prepare(self):
        """Brings the copy up to date with the tree and builds all of it, and the
        unit tests with sanitizers."""
        copy_tree(self.tree.top, set(self.tree.names), self.top)
        self.log.write_bytes(b"")
        self.configure(self.build_dir, "dev", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g")
        self.configure(self.sanitized_dir, "asan-ubsan")
        if not (self.build() and self.build("unit_tests", where=self.sanitized_dir)):
            quit_with(f"the tree does not build: {self.log}")

    def configure(self, where, preset, *options):
        if (where / "CMakeCache.txt").exists():
            return
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        gold = (["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold"]
                if shutil.which("ld.gold") else [])
        with open(self.log, "ab") as log:
            subprocess.run(["cmake", "--preset", preset, "-B", str(where),
                            "-DIPS_WERROR=OFF", *options, *ninja, *gold],
                           cwd=self.top, stdout=log, stderr=log)

    def tests_that_link(self, files):
        """Unit tests that these C files are in, or in a library of ours that they load: the
        names of sources are in a program's symbols. A name that several rooms have counts
        for each."""
        if not self.linked:
            loaded = {lib.name.encode(): sources_of(lib)
                      for lib in (self.build_dir / "lib").glob("lib*.so")}
            for program in sorted((self.build_dir / "tests").glob("test_*")):
                names, code = sources_of(program), program.read_bytes()
                for lib, of_lib in loaded.items():
                    names |= of_lib if lib in code else set()
                self.linked[program.name] = names
        names = {os.path.basename(f) for f in files}
        return [test for test, has in self.linked.items() if has & names]

    def run(self, argv, seconds, sanitized=False):
        """(status, output) of tests in a cell of their own; status None: took longer."""
        private = tempfile.mkdtemp(prefix="ips-mutate-", dir="/dev/shm")
        env = {k: v for k, v in os.environ.items() if not k.startswith("IPS_")}
        env.update(IPS_BUILD=str(self.build_dir), PYTHONDONTWRITEBYTECODE="1",
                   TMPDIR=private, HOME=private)
        # Sanitizers reserve terabytes of addresses, and have limits of their own.
        env["ASAN_OPTIONS"] = "max_allocation_size_mb=16000:hard_rss_limit_mb=16000"
        if has_cells():
            env.update(TMPDIR="/dev/shm", HOME="/dev/shm")
            argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                    "--mount", "sh", "-c", CELL, "sh", str(self.top),
                    "unlimited" if sanitized else "16000000", *argv]
        with tempfile.TemporaryFile() as said:
            proc = subprocess.Popen(argv, cwd=self.top, env=env, stdout=said,
                                    stderr=said, stdin=subprocess.DEVNULL,
                                    start_new_session=True)
            running[proc.pid] = proc, private
            try:
                status = proc.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
            end_group(proc, private)
            del running[proc.pid]
            said.seek(0)
            text = said.read().decode(errors="replace")
        with open(self.log, "a") as log:
            log.write(text)
        if status == 99 and has_cells():
            quit_with(f"no mounts in a namespace here: {text[-300:]}")
        return status, text


running = {}  # tests that were started: {pid: (Popen, private directory)}


def interrupted(*_):
    for proc, private in list(running.values()):
        end_group(proc, private, [(signal.SIGKILL, 10)])
    quit_with("interrupted: the same command goes on from here", 130)


_cells = None


def has_cells():
    global _cells
    if _cells is None:
        _cells = os.geteuid() == 0 and subprocess.run(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount",
             "true"], capture_output=True).returncode == 0
    return _cells


def processes_of(private):
    """Pids of those that have the private directory in arguments or environment."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and int(entry) != os.getpid() and any(
                    os.fsencode(private) in pathlib.Path("/proc", entry, part).read_bytes()
                    for part in ("cmdline", "environ")):
                found.append(int(entry))
        except OSError:
            continue
    return found


def end_group(proc, private, by=((signal.SIGINT, 30), (signal.SIGKILL, 10))):
    """Ends what tests started: politely, so that pytest tidies up; then by pid. A cell
    takes all that is in it with it."""
    for sig, seconds in by:
        if proc.poll() is None:
            try:
                os.killpg(proc.pid, sig)
                proc.wait(seconds)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
    end = time.monotonic() + 10
    while (left := processes_of(private)) and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)
    shutil.rmtree(private, ignore_errors=True)


# --- whether a mutation is one -------------------------------------------------


class Filter:
    """Compiles a mutation with the release's flags and compares the objects."""

    def __init__(self, tree, copy, work):
        self.tree, self.copy = tree, copy
        self.objects, self.overlay = work / "objects", work / "overlay"
        self.commands = {}
        for entry in json.loads((copy.build_dir / "compile_commands.json").read_text()):
            file = os.path.relpath(entry["file"], copy.top)
            self.commands.setdefault(file, []).append(shlex.split(entry["command"]))
        self.objects.mkdir(exist_ok=True)
        for old in self.objects.iterdir():
            if not old.name.startswith(tree.hash):
                old.unlink()

    def compile(self, argv, file, first, to):
        """`first`: the directory where sources are looked for before the tree."""
        wanted = []
        for i, arg in enumerate(argv):
            if argv[i - 1] == "-o" or arg in ("-o", "-c") or arg == "-g":
                continue
            if arg == f"-I{self.copy.top}":
                wanted += [f"-I{first}", f"-I{self.tree.top}"]
            elif arg == str(self.copy.top / file):
                here = first / file
                wanted.append(str(here if here.exists() else self.tree.top / file))
            else:
                wanted.append(arg)
        return subprocess.run(wanted + ["-O2", "-g0", "-DNDEBUG", *STRICT, "-c",
                                        "-o", str(to)],
                              capture_output=True).returncode == 0

    def why_not(self, mutation):
        """None for a mutation that changes what is compiled, else why it does not."""
        shutil.rmtree(self.overlay, ignore_errors=True)
        mutated = self.overlay / mutation.file
        mutated.parent.mkdir(parents=True)
        mutated.write_text(mutants.apply(mutation, self.tree.sources[mutation.file]))
        room = mutation.file.split("/")[0]
        files = [f for f in self.tree.compiled(mutation.file) if f.split("/")[0] in ROOMS]
        for file in sorted(files, key=lambda f: (f.split("/")[0] != room, f)):
            for argv in self.commands.get(file, []):
                kept = self.objects / f"{self.tree.hash}-{digest(*argv)}.o"
                if not kept.exists() and not self.compile(argv, file, self.tree.top, kept):
                    quit_with(f"{file} does not compile: {shlex.join(argv)}")
                other = self.overlay / "mutated.o"
                if not self.compile(argv, file, self.overlay, other):
                    return "does not compile"
                if other.read_bytes() != kept.read_bytes():
                    return None
        return "same objects"


