"""docs/tutorial.md, command by command. Would catch: a command that a newcomer types and
that does not exist any more, fails, or answers INCOMPLETE."""
import os
import re
import shutil
import subprocess

from conftest import ROOT, clean_env, processes_of


def test_tutorial(build, tmp_path):
    text = (ROOT / "docs" / "tutorial.md").read_text()
    blocks = re.findall(r"(?s)```sh\n(.*?)```", text)
    assert len(blocks) >= 10
    top = f"/dev/shm/ips-test-tutorial-{os.getpid()}"
    env = clean_env(PATH=f"{build.top}/bin:{os.environ['PATH']}", IPS_STATE=f"{top}/state",
                    IPS_POOL_ROOT=f"{top}/pool", IPS_TUTORIAL=top)
    try:
        for block in blocks:
            done = subprocess.run(["bash", "-e", "-c", block], cwd=tmp_path, env=env,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=120)
            assert done.returncode == 0, block + done.stdout + done.stderr
            assert "INCOMPLETE" not in done.stdout, block + done.stdout
    finally:
        for pid in processes_of(top):
            os.kill(pid, 15)
        shutil.rmtree(top, ignore_errors=True)
