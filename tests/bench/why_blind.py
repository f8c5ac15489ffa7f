"""`tests/bench/run why-blind`: faults in unmodified programs (why_faults.py), --runs
of them and as many healthy twins, drawn and shuffled by --seed and hidden until each
is judged by what `ipsq why` says first.

A fault is named where one of its kinds, with the words it must say, is among the
first three findings. A flat profile (`ipsq procedures`) is the baseline: it names a
fault where that is a procedure and among its first three. A false alarm is a finding
of a healthy run that tells of waiting: not a procedure, spread cost, a busy machine, or
who in a request loop the other one waits for.

With --into FILE each run is written there as it is judged, and what the file has of
the same seed is not measured again."""
import json
import os
import random
import re
import shutil
import subprocess
import tempfile

from measure import Place
from overhead import free_port
from why_faults import PATH, faults, forget_base

QUIET = {"procedure", "spread", "busy-machine", "late-sender"}


def in_slow_link(command, mbit):
    """A network of its own, whose loopback lets so much through."""
    return ["unshare", "-n", "sh", "-c",
            "ip link set lo up; ip link set lo mtu 1500; tc qdisc add dev lo "
            f"root tbf rate {mbit}mbit burst 16kb latency 500ms; exec \"$@\"",
            "sh", *command]


def measure(place, fault, ill, name):
    directory = tempfile.mkdtemp(
        prefix="ips-blind-", dir="/var/tmp" if ill and fault.disk else "/dev/shm")
    os.chmod(directory, 0o755)
    if fault.prepare:
        fault.prepare[ill](directory)
    command = place.ipsrun(
        "sh", "-c", fault.command[ill].replace("%(port)d", str(free_port())),
        options=("--name", name, "--procedures=sample", "--rate", "2"))
    hogs = [subprocess.Popen(["taskset", "-c", "0", "sh", "-c",
                              "while :; do :; done"])
            for _ in range(fault.hogs if ill else 0)]
    try:
        subprocess.run(in_slow_link(command, fault.link)
                       if ill and fault.link else command,
                       env=dict(place.env, PATH=PATH), cwd=directory,
                       check=True, timeout=300, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
        shutil.rmtree(directory, ignore_errors=True)
    said = json.loads(place.ipsq_any("why", name, "--format", "json"))
    profile = json.loads(place.ipsq_any("procedures", name, "--top", "3",
                                        "--format", "json"))
    return said, [p["procedure"] for p in profile["procedures"]]


def judge(fault, ill, said, profile):
    """What is to be kept of a run."""
    first = said["findings"][:3]
    hit = any(f["kind"] in fault.kinds and re.search(fault.words, f["says"])
              for f in first)
    alarms = [f["kind"] for f in first if f["kind"] not in QUIET]
    return {"fault": fault.name, "ill": ill, "named": ill and hit,
            "profiled": ill and any(p in name for p in fault.procedures
                                    for name in profile),
            "alarm": not ill and bool(alarms), "profile": profile,
            "wall_ns": said.get("wall_ns"), "own_ns": said.get("own_ns"),
            "findings": [[f["kind"], f["gain_share"], f["says"]]
                         for f in said["findings"][:5]]}


def show_run(run):
    what = run["fault"] if run["ill"] else \
        "healthy " + run["fault"].split(":")[0]
    verdict = ("named" if run["named"] else "MISSED") if run["ill"] else \
        ("ALARM" if run["alarm"] else "quiet")
    first = ", ".join(f"{kind} {100 * share:.0f}%"
                      for kind, share, _ in run["findings"][:3])
    print(f"{what:<42} {verdict:<7} {first or 'nothing'}; "
          f"profile: {', '.join(run['profile'])}", flush=True)


def plan(runs, seed, only):
    """[(fault, ill)]: all faults once before any of them comes twice."""
    draw = random.Random(seed)
    there = [f for f in faults(draw) if not only or re.search(only, f.name)]
    chosen = []
    while there and len(chosen) < runs:
        chosen += draw.sample(there, min(len(there), runs - len(chosen)))
    hidden = [(f, ill) for f in chosen for ill in (True, False)]
    draw.shuffle(hidden)
    return hidden


def kept(into, seed):
    if not into or not os.path.exists(into):
        return {}
    with open(into) as f:
        rows = [json.loads(line) for line in f]
    return {r["number"]: r for r in rows if r["seed"] == seed}


def why_blind(build, runs, seed, only, into):
    hidden, done = plan(runs, seed, only), kept(into, seed)
    try:
        with Place(build) as place:
            for i, (fault, ill) in enumerate(hidden):
                if i in done and done[i]["fault"] == fault.name:
                    continue
                done[i] = dict(judge(fault, ill, *measure(place, fault, ill,
                                                          f"blind{i}")),
                               number=i, seed=seed)
                if into:
                    with open(into, "a") as f:
                        f.write(json.dumps(done[i]) + "\n")
                show_run(done[i])
    finally:
        forget_base()
    rows = [done[i] for i in range(len(hidden))]
    ill = [r for r in rows if r["ill"]]
    print(f"named {sum(r['named'] for r in ill)} of {len(ill)}, by a flat "
          f"profile {sum(r['profiled'] for r in ill)}; false alarms "
          f"{sum(r['alarm'] for r in rows)} in {len(rows) - len(ill)} healthy "
          f"runs (seed {seed})")
