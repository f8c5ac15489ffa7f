"""Runs commands of other people's programs, bare or recorded, below build/guests.

Some test suites refuse root, so root runs everything as an ordinary user. That
user may be unable to reach the checkout. Therefore each command of root's gets a
mount namespace of its own, where the checkout is also /mnt.
"""
import hashlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from measure import ROOT, Place, daemons_of_ours  # noqa: E402

GUESTS = os.path.join(ROOT, "build", "guests")
USER = "nobody"
ENTER = ('mount --bind "$0" /mnt && cd "$1" && shift && '
         f'exec setpriv --reuid={USER} --regid="$(id -g {USER})" '
         '--clear-groups -- "$@"')


class Result:
    """The end of a command: exit status (a signal's number below 0, None after
    a time-out) and its output."""

    def __init__(self, status, output):
        self.status, self.output = status, output


class Runner:
    def __init__(self, build):
        self.root = os.geteuid() == 0
        self.place = Place(build)
        if self.root:
            for path in (self.place.state, self.place.pool):
                self.give(path)
            os.chmod(self.place.pool, 0o700)  # as ipsrun makes a user's

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end_leftovers()
        self.place.__exit__(*error)

    def recorded(self):
        """(runs, events) that a slave has taken in."""
        try:
            self.place.settle(20)
        except RuntimeError:
            pass  # a large run is still being archived
        try:
            runs = self.place.runs().values()
        except ValueError:  # no slave has made its database
            return 0, 0
        return len(runs), sum(events or 0 for _, events in runs)

    def give(self, path):
        """Makes the ordinary user the owner of a file or folder."""
        if self.root:
            entry = pwd.getpwnam(USER)
            os.chown(path, entry.pw_uid, entry.pw_gid)

    def give_all(self, top):
        if self.root:
            entry = pwd.getpwnam(USER)
            subprocess.run(["chown", "-R", f"{entry.pw_uid}:{entry.pw_gid}",
                            top], check=True)

    def seen(self, path):
        """The name of a path of the checkout for the command."""
        path = os.path.abspath(path)
        if self.root and path.startswith(ROOT + os.sep):
            return "/mnt" + path[len(ROOT):]
        return path

    def fresh(self, *names):
        """An empty folder of the ordinary user's below build/guests."""
        path = os.path.join(GUESTS, *names)
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        self.give(path)
        return path

    def argv(self, command, cwd, recorded):
        if recorded:
            command = [self.seen(os.path.join(self.place.bin, "ipsrun")),
                       "--quiet", "--", *command]
        if self.root:
            return ["unshare", "--mount", "sh", "-c", ENTER, ROOT,
                    self.seen(cwd), *command]
        return command

    def environment(self, temporary, recorded):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("IPS_", "MAKE", "LD_", "LC_"))}
        env.update(HOME=self.seen(temporary), TMPDIR=self.seen(temporary),
                   LC_ALL="C", PWD=self.seen(temporary))
        if self.root:
            env.update(USER=USER, LOGNAME=USER)
        if recorded:
            env.update({k: v for k, v in self.place.env.items()
                        if k.startswith("IPS_")})
        return env

    def run(self, command, cwd, temporary, recorded=False, seconds=60,
            more_env=()):
        """Runs a command to its end and ends the processes that it left."""
        with tempfile.TemporaryFile(dir=GUESTS) as output:
            child = subprocess.Popen(
                self.argv(command, cwd, recorded), cwd=cwd, stdout=output,
                env={**self.environment(temporary, recorded),
                     **dict(more_env)},
                stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            status = self.wait(child, seconds)
            self.end_leftovers()
            output.seek(0)
            return Result(status, output.read().decode(errors="replace"))

    @staticmethod
    def wait(child, seconds):
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return None

    @staticmethod
    def end_leftovers():
        """Ends, by pid, the orphans of a command, which are children of ours
        now, except IPS's daemons. Their children come to us in turn."""
        for _ in range(50):
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                pids = {int(pid) for pid in f.read().split()}
            pids -= set(daemons_of_ours())
            if not pids:
                return
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            time.sleep(0.01)


def unavailable():
    """The reason why no command can run here, or None."""
    if os.geteuid():
        return None
    done = subprocess.run(["unshare", "--mount", "sh", "-c", ENTER, ROOT,
                           "/mnt", "true"], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def file_state(path, status):
    """The content of a file or link, short; the kind of anything else."""
    if stat.S_ISLNK(status.st_mode):
        return "-> " + os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return "kind %o" % stat.S_IFMT(status.st_mode)
    digest = hashlib.sha1()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def changed_files(top, base=None):
    """{name: content} of the files below `top` that are not the same in `base`.
    Numbers in the names of new files are replaced by #: they are often pids."""
    found, names = {}, set()
    for folder, folders, files in os.walk(top):
        for name in files + folders:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, top)
            names.add(short)
            status = os.lstat(path)
            before = None
            if base and os.path.lexists(os.path.join(base, short)):
                before = os.lstat(os.path.join(base, short))
            if before is None:
                found[re.sub(r"\d+", "#", short)] = file_state(path, status)
            elif not stat.S_ISDIR(status.st_mode) and (
                    before.st_mtime_ns, before.st_size, before.st_mode) != (
                    status.st_mtime_ns, status.st_size, status.st_mode):
                found[short] = file_state(path, status)
    for folder, folders, files in os.walk(base) if base else ():
        for name in files + folders:
            short = os.path.relpath(os.path.join(folder, name), base)
            if short not in names:
                found[short] = "removed"
    return found
