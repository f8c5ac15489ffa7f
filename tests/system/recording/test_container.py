"""In a container as they are by default: a filter of system calls, a small /dev/shm, a
root that cannot be written, a pid namespace of its own.

Would catch: a program ended, or run without a record, because the filter refuses what we
call; an answer that lacks what had no room under `complete`; an error that does not say
what to do.
"""
import ctypes
import errno
import json
import os
import platform
import struct
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or platform.machine() != "x86_64",
                                reason="needs root, and these numbers of system calls")

# What the filters of container engines refuse with EPERM to who has no capability.
REFUSED = {
    "mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "pivot_root": 155, "bpf": 321,
    "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249,
    "userfaultfd": 323, "open_by_handle_at": 304, "name_to_handle_at": 303,
    "io_uring_setup": 425, "io_uring_enter": 426, "kexec_load": 246, "init_module": 175,
    "swapon": 167, "reboot": 169, "sethostname": 170, "acct": 163, "settimeofday": 164,
    "clock_settime": 227, "quotactl": 179, "move_pages": 279, "mbind": 237,
    "get_mempolicy": 239, "set_mempolicy": 238, "kcmp": 312, "process_vm_readv": 310,
    "process_vm_writev": 311, "ptrace": 101, "personality": 135, "pidfd_getfd": 438,
    "fsopen": 430, "open_tree": 428, "move_mount": 429,
}
CLONE, CLONE3, NEW_NAMESPACES = 56, 435, 0x7E020000
LOAD, EQUAL, SET, RETURN = 0x20, 0x15, 0x45, 0x06
ERROR, ALLOW = 0x00050000, 0x7FFF0000


def filtered():
    """Of the calling process, in place of an engine."""
    def line(code, k, yes=0, no=0):
        return struct.pack("HBBI", code, yes, no, k)
    code = [line(LOAD, 0)]
    for number in REFUSED.values():
        code += [line(EQUAL, number, 0, 1), line(RETURN, ERROR | errno.EPERM)]
    code += [line(EQUAL, CLONE3, 0, 1), line(RETURN, ERROR | errno.ENOSYS),
             line(EQUAL, CLONE, 0, 3), line(LOAD, 16), line(SET, NEW_NAMESPACES, 0, 1),
             line(RETURN, ERROR | errno.EPERM), line(RETURN, ALLOW)]
    text = ctypes.create_string_buffer(b"".join(code))

    class Program(ctypes.Structure):
        _fields_ = [("lines", ctypes.c_ushort), ("at", ctypes.c_void_p)]
    program = Program(len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0  # PR_SET_SECCOMP


SETUP = """
mount --make-rprivate / && mount -t tmpfs -o size=64m,mode=1777 shm /dev/shm &&
mount -t tmpfs -o size=64m,mode=1777 tmp /tmp && mount -o remount,ro,bind / &&
mkdir "$HOME" && exec "$@"
"""


def inside(build, script, *words):
    """Standard output and error, and the status, of a shell's script in a container."""
    env = {"HOME": "/tmp/home", "PATH": f"{build.top / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", SETUP, "sh",
         sys.executable, __file__, "sh", "-c", script, "sh", *words], env=env, text=True,
        capture_output=True, timeout=120, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("command,last", [
    ("seq 200000 | sort -n | tail -1", "200000"),
    ("python3 -c 'import threading as t; [x.start() or x.join() for x in "
     "[t.Thread(target=sum, args=(range(9999),)) for i in range(9)]]; print(9)'", "9"),
    ("perl -e 'for (1..20) { fork or exit 0; wait } print \"20\\n\"'", "20")],
    ids=["pipe", "threads", "children"])
def test_recorded(build, command, last):
    """Bare and recorded alike, and all of it is there."""
    done = inside(build, 'ipsrun --name r -- sh -c "$1; exit 3"; echo status $?; '
                         "ipsq path r --format json", command)
    out, status, answer = done.stdout.split("\n", 2)
    assert (out, status) == (last, "status 3"), done.stderr
    answer = json.loads(answer)
    assert answer["certificate"]["complete"] and not answer["certificate"]["untraced"]
    assert answer["certificate"]["events"] > 20


def test_no_room_for_all(build):
    """More than /dev/shm has room for while nobody drains: the program goes on, and the
    answer says that events were lost."""
    done = inside(build, """
        ipsrun --no-daemons --name r -- perl -e 'pipe R, W;
            for (1..900000) { syswrite W, "x"; sysread R, $x, 1 } print "end\\n"'
        echo status $?; ipsq path r --format json""")
    out, status, answer = done.stdout.split("\n", 2)
    assert (out, status) == ("end", "status 0"), done.stderr
    certificate = json.loads(answer)["certificate"]
    assert not certificate["complete"] and certificate["lost"]


def test_nowhere_to_write(build):
    """A state directory that cannot be made: the command runs, and both programs say
    what to do."""
    done = inside(build, "export HOME=/nowhere; ipsrun --name r -- echo ran; ipsq path r")
    assert done.stdout == "ran\n" and done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "state directory" in line]
    assert len(lines) == 3 and all("IPS_STATE" in line for line in lines), done.stderr


if __name__ == "__main__":
    filtered()
    os.execvp(sys.argv[1], sys.argv[1:])
