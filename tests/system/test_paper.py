"""The experiments of tests/bench/paper in their short form: each command runs from its
machines to its tables, the programs print what they must under IPS on several machines
(the known answers are checked in every measured run), every question is answered, and
what must hold of any run holds. No figure is looked at.

EVIDENCE-OF: DPM-11 DPM-12 DRO-3 DRO-6."""
import json
import os
import pathlib
import subprocess

import pytest

import conftest

PAPER = conftest.ROOT / "tests" / "bench" / "paper"
KEYS = {"dpm11": "rows", "dpm12": "predicted", "dro3": "load",
        "predict": "configurations"}


@pytest.mark.parametrize("name", sorted(KEYS))
def test_short_form(build, make_hosts, name):
    """Would catch an experiment that has decayed: a program that no longer starts or
    prints something else when it is measured, an option or a key of an answer that
    is gone, a P above P_max or above the number of cores."""
    make_hosts(1)  # skips where there can be none
    done = subprocess.run(
        [str(PAPER / name), "--short", "--build", str(build.top), "--no-prefer"],
        capture_output=True, text=True, env=conftest.clean_env(), timeout=270)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "|---|" in done.stdout
    found = json.loads(pathlib.Path(
        build.top, "paper", f"{name}-short.json").read_text())
    assert found[KEYS[name]], found


def test_drawn_alike():
    """Would catch a draw of configurations that depends on anything but the seed:
    predictions could then not be made before what they are compared with."""
    script = ("import importlib.machinery, importlib.util, sys\n"
              f"sys.path.insert(0, {str(PAPER)!r})\n"
              "loader = importlib.machinery.SourceFileLoader('predict', "
              f"{str(PAPER / 'predict')!r})\n"
              "spec = importlib.util.spec_from_loader('predict', loader)\n"
              "m = importlib.util.module_from_spec(spec)\n"
              "loader.exec_module(m)\n"
              "p = m.KINDS['exchange']('/nowhere', '/tmp')\n"
              "print([m.draw(p, 4, s) for s in (1, 1, 2)])\n")
    said = [subprocess.run(
        ["/usr/bin/python3", "-c", script], check=True, text=True,
        stdout=subprocess.PIPE, env=dict(os.environ, PYTHONHASHSEED=str(h),
                                         PYTHONDONTWRITEBYTECODE="1")).stdout
        for h in (1, 2)]
    assert said[0] == said[1]
    assert said[0].count("Config(") == 12
