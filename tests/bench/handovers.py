"""`tests/bench/run handovers`: how often a contended lock changes hands.

Two threads take one lock; a quarter of a second each, bare, bare again and recorded by
turns in random order. The second bare one shows how far two equal ones lie apart.
"""
import os
import random
import subprocess

from measure import Place, show

KINDS = ("mutex", "held", "rwlock", "semaphore")
SECONDS = "0.25"


def bench(build, rounds, against=None):
    builds = {"recorded": build, **({"against": against} if against else {})}
    places = {name: Place(which) for name, which in builds.items()}
    got = {}
    try:
        for _ in range(rounds):
            for kind in KINDS:
                one = [os.path.join(build, "tests", "bench_handover"), kind, SECONDS]
                arms = {"bare": one, "bare again": one}
                for name, place in places.items():
                    arms[name] = place.ipsrun(*one, options=("--no-daemons",))
                for arm in random.sample(list(arms), len(arms)):
                    env = places[arm].env if arm in places else os.environ
                    out = subprocess.run(arms[arm], env=env, check=True, text=True,
                                         stdout=subprocess.PIPE).stdout.split()
                    got.setdefault((kind, arm), []).append(
                        (float(out[1]), float(out[3])))
                for place in places.values():
                    place.forget()
    finally:
        for place in places.values():
            place.__exit__()
    for (kind, arm), values in sorted(got.items()):
        show(f"{kind}, {arm}: handovers", [v[0] / 1e3 for v in values], "k/s")
        show(f"{kind}, {arm}: rounds", [v[1] / 1e6 for v in values], "M/s")
