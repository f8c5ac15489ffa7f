"""Every field of `control` after each option of ipsrun, and every sentence with
which ipsrun refuses one. docs/pool-format.md says which fields there are; what
each must be comes from the machine (/proc, statvfs), from the pool's file
`clock` and from the command line.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from conftest import clean_env, give_clock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "oracle"))

import pool_format  # noqa: E402

pytestmark = pytest.mark.quick

FORMAT = pool_format.load()
# Of the costs in `clock`, in their order: how many records each kind of probe
# writes, which IPS_TEST_PROBE_NS makes dearer.
RECORDS = [1, 1, 0, 1, 2, 0, 1, 0, 1, 2, 2, 0, 0, 2, 2, 1, 2]


@pytest.fixture
def top(build):
    path = tempfile.mkdtemp(prefix="ips-test-control-", dir="/dev/shm")
    os.mkdir(path + "/pool", 0o711)
    give_clock(build, path + "/pool")
    yield path
    shutil.rmtree(path)


def run(build, top, *words, env=()):
    return subprocess.run(
        [build.bin("ipsrun"), "--no-daemons", "--pool", top + "/pool", *words],
        text=True, timeout=180, capture_output=True,
        env=clean_env(IPS_MACHINE="here", **dict(env)))


def read(top, name):
    path = pathlib.Path(top, "pool", name, "control")
    return FORMAT.control(path.read_bytes())


def clock_file(top):
    """(boot id, clock, costs) of the pool."""
    words = pathlib.Path(top, "pool/clock").read_text().split()
    assert words[0] == "3" and len(words) == 7 + 21
    clock = dict(zip(("kind", "counter0", "raw0_ns", "mult_q32"),
                     map(int, words[2:6])), reserved=0)
    return words[1], clock, list(map(int, words[7:]))


def expected(top, name, pid, command, extra_ns=0):
    boot, clock, costs = clock_file(top)
    assert boot == pathlib.Path(
        "/proc/sys/kernel/random/boot_id").read_text().strip()
    costs = [c + 1000 * extra_ns * n for c, n in
             zip(costs, RECORDS + [0] * (21 - len(RECORDS)))]
    segments = FORMAT.segments(f"{top}/pool/{name}")
    return {
        "magic": int.from_bytes(b"IPSCTRL1", "little"), "version": 3,
        "control_bytes": 1376, "run": name, "machine": "here",
        "boot_id": boot, "command": command, "clock": clock,
        "probe_ns": (costs[1] + 500) // 1000, "root_pid": pid,
        "cpus": len(os.sched_getaffinity(0)), "segment_bytes": 1 << 20,
        "uid": os.geteuid(), "tags": [], "test_offset_ns": 0,
        "test_drift_ppm": 0, "test_step_ns": 0, "test_step_at_ns": 0,
        "used_bytes": sum(s.blocks for s in segments), "lost": [0] * 8,
        "released_bytes": 0, "procedures": 1, "sample_us": 10000,
        "cpu_mode": 0, "on_full": 0, "budget_ppm": 20000,
        "probe_extra_ns": extra_ns, "probe_cost_ps": costs[:8], "arrivals": 0,
        "delays": 1, "probe_more_ps": costs[8:11], "locks": 0, "slave_pid": 0,
        "slave_list": 0, "probe_spawn_ps": costs[11], "spare_bytes": 0,
        "probe_late_ps": costs[12:], "has_pty_master": 0, "reserved": 0}


M = 1 << 20
OPTIONS = [
    ([], {}),
    (["--procedures=off"], {"procedures": 0}),
    (["--procedures=sample"], {"procedures": 1}),
    (["--procedures=exact"], {"procedures": 2}),
    (["--rate", "1"], {"sample_us": 1000}),
    (["--rate", "100"], {"sample_us": 100000}),
    (["--budget", "0.5"], {"budget_ppm": 5000}),
    (["--budget", "0.001"], {"budget_ppm": 10}),
    (["--budget", "100"], {"budget_ppm": 1000000}),
    (["--on-full=drop"], {"on_full": 0}),
    (["--on-full=block"], {"on_full": 1}),
    (["--quota", "256K"], {"quota_bytes": 256 << 10}),
    (["--quota", "300000"], {"quota_bytes": 300000}),
    (["--quota", "3M"], {"quota_bytes": 3 * M}),
    # A ring's segments are a 16th of the quota, a multiple of 64 KiB.
    (["--on-full=ring", "--quota=256K"],
     {"on_full": 2, "quota_bytes": M // 4, "segment_bytes": 65536}),
    (["--on-full=ring", "--quota=2M"],
     {"on_full": 2, "quota_bytes": 2 * M, "segment_bytes": 2 * 65536}),
    (["--on-full=ring", "--quota=7M"],
     {"on_full": 2, "quota_bytes": 7 * M, "segment_bytes": 7 * 65536}),
    (["--on-full=ring", "--quota=16M"],
     {"on_full": 2, "quota_bytes": 16 * M, "segment_bytes": M}),
    (["--on-full=ring", "--quota=17M"],
     {"on_full": 2, "quota_bytes": 17 * M, "segment_bytes": M}),
    (["--cpu=fast"], {"cpu_mode": 0}),
    (["--cpu=exact"], {"cpu_mode": 1}),
    (["--cpu=clock"], {"cpu_mode": 2}),
    (["--locks=contended"], {"locks": 0}),
    (["--locks=all"], {"locks": 1}),
    (["--arrivals"], {"arrivals": 1}),
    (["--run-delay=off"], {"delays": 0}),
    (["--run-delay=on"], {"delays": 1}),
    (["--machine", "m" * 63], {"machine": "m" * 63}),
    (["--tag", "a=1"], {"tags": ["a=1"]}),
    (["--tag", "a=1", "--tag", "b=", "--tag", "a=2 3"],
     {"tags": ["a=1", "b=", "a=2 3"]}),
    (["--tag", "k=" + "v" * 252], {"tags": ["k=" + "v" * 252]}),
]


def test_each_option(build, top):
    """Would catch: an option that sets another field, or a wrong unit; a field
    that nothing sets; a price that is stored at another kind's place."""
    fields = {f[0] for f in FORMAT.structs["ips_control"]}
    for i, (words, change) in enumerate(OPTIONS):
        raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        real = time.time_ns()
        # The shell's pid is ipsrun's: the command takes its place.
        command = ["sh", "-c", "echo $$"]
        done = run(build, top, "--name", f"r{i}", *words, "--", *command)
        assert (done.returncode, done.stderr) == (0, f"ipsrun: run r{i}\n")
        c = read(top, f"r{i}")
        assert set(c) == fields
        assert raw <= c.pop("created_raw_ns") <= \
            time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        assert real - 10**7 <= c.pop("created_real_ns") <= time.time_ns()
        want = expected(top, f"r{i}", int(done.stdout), " ".join(command))
        want.update(change)
        fs = os.statvfs(top)
        assert 0 < c["quota_bytes"] <= fs.f_blocks * fs.f_frsize // 4
        want.setdefault("quota_bytes", c["quota_bytes"])
        assert c == want, words


def test_quota_is_a_quarter_of_what_is_free(build, top):
    """What runs of the pool hold counts as theirs: it is added before the
    quarter and taken off after. Would catch a run that gets more with each
    other one. Others use the file system meanwhile: 10% and more are errors."""
    def free():
        fs = os.statvfs(top)
        return fs.f_bavail * fs.f_frsize

    assert run(build, top, "--name", "a", "true").returncode == 0
    # As if that run held half of the file system's free bytes.
    held = free() // 2
    with open(f"{top}/pool/a/control", "r+b") as f:
        f.seek(1064)
        f.write((held + 4096).to_bytes(8, "little"))
        f.seek(1136)
        f.write((4096 * 3).to_bytes(8, "little"))
        f.seek(1288)
        f.write((4096 * 2).to_bytes(8, "little"))
    assert run(build, top, "--name", "b", "true").returncode == 0
    # held / 2 is more than a quarter of 3/2 of held: nothing is left
    left = max((free() + held) // 4 - held, 0)
    assert read(top, "b")["quota_bytes"] == left == 0
    with open(f"{top}/pool/a/control", "r+b") as f:
        f.seek(1064)
        f.write((held // 8 + 4096).to_bytes(8, "little"))
    assert run(build, top, "--name", "c", "true").returncode == 0
    want = (free() + held // 8) // 4 - held // 8
    assert abs(read(top, "c")["quota_bytes"] - want) < want / 10


def test_names_commands_and_the_environment(build, top):
    """Would catch: a command cut in the wrong place, a test's clock whose parts
    are mixed up, prices that a test's own cost was not added to."""
    long = ["true"] + ["word%d" % i for i in range(100)]
    done = run(build, top, "--name", "x" * 63, "--", *long)
    assert done.returncode == 0, done.stderr
    c = read(top, "x" * 63)
    assert c["command"] == " ".join(long)[:511] and c["run"] == "x" * 63
    env = {"IPS_TEST_CLOCK": "1000,-20,3000,-40", "IPS_TEST_PROBE_NS": "500"}
    done = run(build, top, "--name", "t", "--", "sh", "-c", "echo $$", env=env)
    c = read(top, "t")
    want = expected(top, "t", int(done.stdout), "sh -c echo $$", 500)
    want.update(test_offset_ns=1000, test_drift_ppm=2**64 - 20,
                test_step_at_ns=3000, test_step_ns=2**64 - 40,
                **{k: c[k] for k in ("quota_bytes", "created_raw_ns",
                                     "created_real_ns")})
    assert c == want
    # Who joins is a part of the run, and not its command; it keeps what is
    # there.
    done = run(build, top, "--join", "j", "--master", f"unix:{top}/nobody",
               "--rate", "1", "--", "true")
    assert done.returncode == 0 and done.stderr.endswith("ipsrun: run j\n")
    assert "cannot tell whether run j exists" in done.stderr
    c = read(top, "j")
    assert (c["root_pid"], c["sample_us"], c["command"]) == (0, 1000, "true")
    done = run(build, top, "--join", "t", "--rate", "1", "--", "false")
    assert done.returncode == 1
    again = read(top, "t")
    assert again.pop("used_bytes") > want.pop("used_bytes")
    assert {k: v for k, v in want.items()} == again
    # Made up: the command's last part, what is no plain letter as "_".
    done = run(build, top, "--", "/bin/sh", "-c", ":")
    assert done.returncode == 0
    assert re.fullmatch(
        r"ipsrun: run sh-\d{8}-\d{6}-[0-9a-f]{8}\n", done.stderr)


REFUSED = [
    ([], "no command given"),
    (["--rate", "0", "true"], "--rate 0: 1 to 100 milliseconds"),
    (["--rate", "101", "true"], "--rate 101: 1 to 100 milliseconds"),
    (["--rate", "1x", "true"], "--rate 1x: 1 to 100 milliseconds"),
    (["--rate", " 1", "true"], "--rate  1: 1 to 100 milliseconds"),
    (["--budget", "0.0009", "true"],
     "--budget 0.0009: 0.001 to 100 percent"),
    (["--budget", "100.1", "true"], "--budget 100.1: 0.001 to 100 percent"),
    (["--budget", "1%", "true"], "--budget 1%: 0.001 to 100 percent"),
    (["--budget", "nan", "true"], "--budget nan: 0.001 to 100 percent"),
    (["--procedures", "all", "true"],
     "--procedures=all: off, sample or exact"),
    (["--on-full", "stop", "true"], "--on-full=stop: drop, block or ring"),
    (["--cpu", "slow", "true"], "--cpu=slow: fast, exact or clock"),
    (["--locks", "none", "true"], "--locks=none: contended or all"),
    (["--run-delay", "maybe", "true"], "--run-delay=maybe: on or off"),
    *[(["--quota", text, "true"],
       f"--quota {text}: a number of bytes, or with K, M or G; at least 256K")
      for text in ("255K", "262143", "1T", "1MB", "-1M", "", "M", "0G",
                   "99999999999999999999")],
    (["--tag", "=v", "true"], "--tag =v: must be KEY=VALUE"),
    (["--tag", "kv", "true"], "--tag kv: must be KEY=VALUE"),
    (["--tag", "k=" + "v" * 253, "true"],
     "all tags together are longer than 254 bytes"),
    (["--tag", "k=" + "v" * 200, "--tag", "k=" + "w" * 51, "true"],
     "all tags together are longer than 254 bytes"),
    (["--machine", "m" * 64, "true"], "--machine: 1 to 63 bytes, no '/'"),
    (["--machine", "a/b", "true"], "--machine: 1 to 63 bytes, no '/'"),
    (["--pool", "", "true"], "--pool: empty path"),
    (["--state", "", "true"], "--state: empty path"),
    (["--state", "/" + "s" * 5000, "true"],
     "--state: path longer than {path} bytes"),
    (["--master", "", "true"], "--master: 1 to {path} bytes"),
    (["--master", "m" * 5000, "true"], "--master: 1 to {path} bytes"),
    (["--name", "a", "--join", "b", "true"],
     "--name makes a run, --join takes one: give one of them"),
]


def test_each_refusal(build, top):
    """Would catch: a bound that is off by one, a value that is half read, a
    sentence that names another option; a refused run that is made all the
    same."""
    before, lengths = sorted(os.listdir(top + "/pool")), set()
    for words, text in REFUSED:
        done = run(build, top, *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        first, rest = done.stderr.split("\n", 1)
        if "{path}" in text:
            start, end = text.split("{path}")
            digits = first[len("ipsrun: " + start):-len(end)]
            assert digits.isdigit()
            lengths.add(int(digits))
            text = text.replace("{path}", digits)
        assert first == "ipsrun: " + text, words
        assert rest == "Try 'ipsrun --help'.\n"
    longest = lengths.pop()  # the same everywhere, and just that one is taken
    assert not lengths
    for length in (longest, longest + 1):
        done = run(build, top, "--master", "m" * length, "true")
        assert ("--master: 1 to" in done.stderr) == (length > longest)
    for name in ("", ".hidden", "a/b", "x" * 64, "a b"):
        done = run(build, top, "--name", name, "true")
        assert (done.returncode, done.stderr) == (2, (
            f"ipsrun: run name '{name}': 1 to 63 letters, digits, '.', '_' or "
            "'-', not beginning with '.'\n")), name
    assert sorted(set(os.listdir(top + "/pool")) - {"pool.lock"}) == before


def test_a_pool_that_cannot_be_locked(build, top):
    """Would catch: a run made without the lock, beside another that takes the same
    room; somebody else's file that is written through a link."""
    lock, ran = pathlib.Path(top, "pool", "pool.lock"), pathlib.Path(top, "ran")
    for make, why in ((lock.mkdir, "Is a directory"),
                      (lambda: lock.symlink_to("/dev/null"),
                       "Too many levels of symbolic links")):
        make()
        before = sorted(os.listdir(top + "/pool"))
        done = run(build, top, "--", "touch", str(ran))
        assert done.returncode == 125
        assert done.stderr == f"ipsrun: {lock}: {why}\n"
        assert sorted(os.listdir(top + "/pool")) == before and not ran.exists()
        lock.rmdir() if lock.is_dir() and not lock.is_symlink() else lock.unlink()


def test_made_up_names_cannot_be_guessed(build, top):
    """Four runs, whose names end with 32 random bits: none of them is a process id,
    which has 22 (by chance all four would be that small once in 10^12 times). Would
    catch: a name that two containers make up alike in one second."""
    before = set(os.listdir(top + "/pool"))
    for _ in range(4):
        assert run(build, top, "--", "true").returncode == 0
    made = set(os.listdir(top + "/pool")) - before - {"pool.lock"}
    ends = [re.fullmatch(r"true-\d{8}-\d{6}-([0-9a-f]{8})", name)[1] for name in made]
    assert len(set(ends)) == 4
    assert max(int(end, 16) for end in ends) >= 2**22
