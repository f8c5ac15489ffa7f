"""The pool belongs to its user: nobody else can read it, make the slave follow
a link, block or take strange files for the run's, or fill the file system
through it. As other users by setpriv; needs root.
"""
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import tempfile

import pytest

from conftest import clean_env, wait_until

pytestmark = [pytest.mark.quick, pytest.mark.skipif(
    os.geteuid() != 0, reason="becoming other users needs root")]

NOBODY, STRANGER = 65534, 65533


def as_user(uid, argv, **kw):
    return subprocess.run(
        ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
         *map(str, argv)], capture_output=True, text=True, timeout=120,
        env=clean_env(), cwd="/", **kw)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def top():
    """A directory that every user can go through."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="ips-private-",
                                         dir="/dev/shm"))
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


def test_a_users_pool_is_his_alone(build, top):
    """Would catch a pool, a control file or a segment that others may read,
    whatever the umask was."""
    (top / "home").mkdir()
    os.chown(top / "home", NOBODY, NOBODY)
    pool = top / "home" / "pool"
    done = as_user(NOBODY, ["sh", "-c", 'umask 0; exec "$@"', "sh",
                            build.bin("ipsrun"), "--no-daemons", "--quiet",
                            "--pool", pool, "--name", "r", "--",
                            "/bin/echo", "x"])
    if "ermission denied" in done.stderr:
        pytest.skip("other users cannot reach the build")
    assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr
    assert mode(pool) == 0o700 and mode(pool / "r") == 0o700
    files = list((pool / "r").iterdir())
    assert len(files) >= 2
    assert all(mode(f) == 0o600 and f.stat().st_uid == NOBODY for f in files)
    assert as_user(STRANGER, ["ls", pool]).returncode != 0
    assert as_user(STRANGER, ["cat", files[0]]).returncode != 0
    # Another user's pool is refused, whatever its mode.
    os.chmod(pool, 0o777)
    done = as_user(STRANGER, [build.bin("ipsrun"), "--no-daemons", "--pool",
                              pool, "--name", "s", "--", "/bin/echo", "x"])
    assert done.returncode == 125 and "not yours alone" in done.stderr


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo"])
def test_a_planted_pool_root_is_refused(build, top, kind):
    """/dev/shm is everybody's. Would catch a link that is followed, and a
    directory behind it whose mode is changed."""
    target = top / "target"
    target.mkdir(mode=0o755)
    pool = top / "pool"
    if kind == "link":
        pool.symlink_to(target)
    elif kind == "dangling":
        pool.symlink_to(top / "nowhere")
    elif kind == "file":
        pool.write_text("")
    else:
        os.mkfifo(pool)
    for argv in ([build.bin("ipsrun"), "--no-daemons", "--pool", pool, "--",
                  "/bin/echo", "x"],
                 [build.bin("ips-slave"), "--pool", pool, "--state",
                  top / "state", "--machine", "m"]):
        done = subprocess.run(list(map(str, argv)), capture_output=True,
                              text=True, timeout=120, env=clean_env())
        assert done.returncode not in (0, -6, -11), done
        assert str(pool) in done.stderr
    assert mode(target) == 0o755 and not list(target.iterdir())
    assert not (top / "nowhere").exists()


@pytest.mark.slow
def test_strange_files_in_roots_run(cluster, build):
    """Another user plants links, pipes, huge and senseless files beside the
    segments of root's run, and tries what he can on those. Would catch a slave
    that follows, blocks, dies, or counts them as damage to the run."""
    c = cluster()
    machine = c.machines[0]
    for path in (c.root, c.root / "pool", machine.pool):
        os.chmod(path, 0o711)
    flag = c.root / "flag"
    proc = c.popen([build.program("i_guest"), "meanwhile", str(flag)],
                   name="real")
    wait_until("the program is under way", flag.exists)
    [run] = [d for d in machine.pool.iterdir() if (d / "control").exists()]
    assert mode(run) == 0o1733 and mode(machine.pool) == 0o711
    [own, *_] = run.glob("*.seg")
    assert mode(own) == 0o600
    secret = c.root / "secret.seg"
    secret.write_bytes(b"x" * 4096)
    secret.chmod(0o600)
    planted = f"""
    cd {run}
    ls > /dev/null 2>&1 && echo listed
    cat {own.name} > /dev/null 2>&1 && echo read
    rm -f {own.name} 2> /dev/null && echo removed
    mv {own.name} x.seg 2> /dev/null && echo renamed
    rm -f control 2> /dev/null && echo removed control
    ln -s {secret} 1.1.1.seg; ln -s /dev/zero 1.1.2.seg
    mkfifo 1.1.3.seg
    truncate -s 100G 1.1.4.seg
    head -c 300000 /dev/urandom > 1.1.5.seg
    echo > 1.1.6.seg; mkdir 1.1.7.seg; : > control.1
    ln -s / loop.seg
    echo planted"""
    done = as_user(STRANGER, ["sh", "-c", planted])
    assert done.stdout == "planted\n", done
    flag.unlink()
    assert proc.wait(120) == 0
    c.wait_closed("real")
    assert machine.slave.poll() is None, machine.log.read_text()
    # Its naps until the flag was gone: nobody recorded removed it.
    certificate = c.json("path", "real", status=(0, 3))["certificate"]
    assert not certificate["lost"] and not certificate["torn"]
    assert all("too short by up to" in gap for gap in certificate["gaps"])
    assert secret.read_bytes() == b"x" * 4096
    c.ipsrun(["true"], name="next", check=True)
    c.wait_closed("next")


SCRIPT = r"""
set -e
mkdir pool
mount -t tmpfs -o size=16m,mode=711 ips-test pool
for i in 1 2 3 4; do
    ipsrun --no-daemons --quiet --pool "$PWD/pool" --name r$i -- "$1" flood 60000
done
du -s --block-size=1 --exclude=.preload-* pool
"""


def test_all_runs_share_one_quota(build, top):
    """Would catch a quota that each run has for itself: the four would take
    a quarter of the rest each. (What they lose of it is counted.)"""
    env = clean_env(PATH=f"{build.top}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    IPS_STATE=top / "state")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SCRIPT + "cp -r pool copy", "sh",
         build.program("i_guest")], cwd=top, env=env, capture_output=True,
        text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("moved") == 4
    used = int(done.stdout.split("\n")[-2].split()[0])
    # directories, control files and the clock are not in it, nor is the copy of a
    # library that lies where other users cannot read it
    assert (3 << 20) < used <= (4 << 20) + (256 << 10)
    quotas = [struct.unpack_from("<Q", next((top / "copy").glob(
        f"r{i}*/control")).read_bytes(), 744)[0] for i in (1, 2, 3, 4)]
    assert quotas[0] > 15 << 18 and max(quotas[2:]) < 1 << 19


def test_a_library_of_roots_own(build, top):
    """Root builds and runs IPS where nobody else can read (a home directory), and
    the command becomes another user. Would catch: the loader's complaint on that
    program's terminal, and its processes unrecorded."""
    pool, home = top / "pool", top / "home"
    for part in ("bin", "lib"):
        (home / part).mkdir(parents=True)
    os.chmod(home, 0o700)
    ipsrun = shutil.copy(build.bin("ipsrun"), home / "bin")
    shutil.copy(build.lib("libips-preload.so"), home / "lib")
    for name in "first", "second":
        done = subprocess.run(
            [ipsrun, "--no-daemons", "--quiet", "--pool", pool, "--name", name,
             "--", "setpriv", f"--reuid={NOBODY}", "--clear-groups", "sh", "-c",
             "/bin/echo x; echo $LD_PRELOAD"], capture_output=True, text=True,
            env=clean_env(), cwd="/", timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("x\n")
        library = pathlib.Path(done.stdout.split()[1])
        assert library.name == "libips-preload.so"
        assert library.read_bytes() == \
            (home / "lib" / "libips-preload.so").read_bytes()
        assert {f.stat().st_uid for f in (pool / name).iterdir()} == {0, NOBODY}
    assert len(list(pool.glob(".preload-*"))) == 1
    # A build that all may read is taken from where it is.
    os.chmod(home, 0o755)
    done = subprocess.run(
        [ipsrun, "--no-daemons", "--quiet", "--pool", pool, "--name", "third",
         "--", "sh", "-c", "echo $LD_PRELOAD"], capture_output=True, text=True,
        env=clean_env(), cwd="/", timeout=120)
    assert done.stdout == f"{home}/lib/libips-preload.so\n"
