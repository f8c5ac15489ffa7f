"""The demo and the installer: what they say, and that nothing stays."""
import os
import pathlib
import re
import subprocess

import pytest

from conftest import ROOT, clean_env, processes_of

DEMO_DIR = pathlib.Path(f"/dev/shm/ips-demo-{os.getuid()}")


def call(*words, timeout=200):
    return subprocess.run(list(map(str, words)), capture_output=True,
                          text=True, cwd="/", env=clean_env(),
                          stdin=subprocess.DEVNULL, timeout=timeout)


def demo(*words):
    return call(ROOT / "deploy" / "demo", *words)


def assert_nothing_left():
    assert not DEMO_DIR.exists()
    assert processes_of(DEMO_DIR) == []
    if os.geteuid() == 0:
        assert "ipsdemo" not in call("ip", "netns", "list").stdout


@pytest.fixture
def no_demo(build):
    if build.top != ROOT / "build" / "release":
        pytest.skip("the demo uses the release build")
    if DEMO_DIR.exists():
        pytest.skip("somebody's demo is running")
    yield
    demo("--end")


def check_output(text):
    """It found the tour twice, the answer names the cause (beside what other programs
    take of a busy machine), and the second run is compared; all in a few lines."""
    assert text.count("it found length 4809") == 2
    first = text.split("$ ipsq why slow")[1]
    pair = re.search(r"\n [12]\. (\S+) and (\S+) exchange many small messages", first)
    assert pair and {re.split("[/.]", end)[2] for end in pair.groups()} == \
        {"tsp-controller", "tsp-server"}, first
    assert "net_try_connect" not in text
    assert "(more of it: ipsq diff slow quick)\n" in text
    second = text.split("$ ipsq diff slow quick")[1]
    assert re.search(r"\nelapsed ", second)
    assert re.search(r"\nmessages .* -\d", second), second
    own = second.split("Your own program:\n")[1].splitlines()[:3]
    assert [line.split()[0] for line in own] == ["export", "ipsrun", "ipsq"]
    assert len(text.splitlines()) <= 70


@pytest.mark.timeout(360)
def test_demo(no_demo):
    done = demo()
    assert done.returncode == 0, done.stdout + done.stderr
    check_output(done.stdout)
    assert_nothing_left()


@pytest.mark.timeout(360)
def test_kept_demo(no_demo):
    """What it shows is what the commands print by hand. Would catch: a demo that shows
    other lines than a user gets."""
    done = demo("--keep", "--loopback")
    assert done.returncode == 0, done.stdout + done.stderr
    check_output(done.stdout)
    ask = re.search(r"^ +(\S+/ipsq --master \S+) COMMAND", done.stdout, re.M)
    shown = re.findall(r"(?m)^\$ (ipsq .*)\n((?:(?!\[ *\d+s\]|\$ |Still running).*\n)*)",
                       done.stdout)
    assert len(shown) == 2
    for command, text in shown:
        again = call("sh", "-c", command.replace("ipsq", ask[1], 1))
        assert again.returncode == 0 and again.stdout.strip() == text.strip()
    again = demo()
    assert again.returncode == 1 and "--end" in again.stderr
    assert demo("--end").returncode == 0
    assert_nothing_left()


@pytest.mark.timeout(360)
def test_interrupted_demo(no_demo):
    """Ended in the middle, it still leaves nothing."""
    proc = subprocess.Popen([str(ROOT / "deploy" / "demo")],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env=clean_env())
    for line in proc.stdout:
        if "the program:" in line:
            break
    proc.terminate()
    rest = proc.stdout.read()
    assert proc.wait(120) == 143, rest
    assert_nothing_left()


@pytest.mark.quick
@pytest.mark.parametrize("script", ["deploy/demo", "deploy/deps",
                                    "deploy/hosts", "tests/run"])
def test_usage(script):
    done = call(ROOT / script, "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: " + script)
    done = call(ROOT / script, "--no-such-option")
    assert done.returncode == 2 and "usage: " in done.stderr


@pytest.mark.quick
def test_deps_does_nothing_when_all_is_there():
    """These tests run, so it is."""
    done = call(ROOT / "deploy" / "deps")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.quick
def test_deps_has_the_peers_only_when_asked():
    """Would catch other tracers, with a service, on the machine of somebody
    who only wanted to build."""
    listed = [call(ROOT / "deploy" / "deps", *words, "--list").stdout.split()
              for words in ([], ["--bench"])]
    assert "gcc" in listed[0] and "lttng-tools" not in listed[0]
    assert {"lttng-tools", "uftrace", "wrk"} <= set(listed[1])


@pytest.mark.quick
def test_deps_tells_a_user_what_to_ask_for():
    """With a package that is not there, and no root."""
    if os.geteuid() != 0:
        pytest.skip("needs to become somebody else")
    changed = (ROOT / "deploy" / "deps").read_text().replace(
        "strace", "no-such-package")
    done = call("setpriv", "--reuid", 65534, "--regid", 65534,
                "--clear-groups", "bash", "-c", changed, "deps", "--test")
    assert done.returncode == 1 and done.stdout == ""
    assert "apt-get install --no-install-recommends no-such-package" in \
        done.stderr
