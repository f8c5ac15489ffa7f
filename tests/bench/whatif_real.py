"""`tests/bench/run whatif`: what `ipsq whatif` says of a procedure made faster,
against the same program in which it really is (tests/programs/whatif_real.c).

Each program is recorded as it is, and asked about every edit. Then it runs bare, as
it is and with each edit, interleaved in random order, with real-time priority where
that is allowed; the elapsed time of a kind is the least of its runs, since what else
the machine does only adds to it. Beside the
prediction stands what share x theta says, with the procedure's share of all CPU time
(a flat profile's) and with its share of the path (the answer's own bound); all three are parts of the elapsed time.

The programs run two busy threads at a time at most, but for `stages` and `server`,
which have three and a third core at hand only where there is one.
"""
import json
import os
import random
import statistics
import subprocess
import time

from measure import Place

ROUNDS, UNIT = 60, 15000
RECORDED = 3  # runs; the median of their answers counts

# (program, procedure, faster by per cent, on the path?)
EDITS = [
    ("rounds", "slow", 30, True), ("rounds", "slow", 90, True),
    ("rounds", "combine", 50, True), ("rounds", "quick", 100, False),
    ("rounds", "quick", 50, False),
    ("stages", "transform", 30, True), ("stages", "transform", 90, True),
    ("stages", "parse", 60, False), ("stages", "emit", 100, False),
    ("threads", "left", 25, True), ("threads", "left", 90, True),
    ("threads", "serial", 50, True), ("threads", "right", 100, False),
    ("server", "lookup", 50, True), ("server", "prepare", 50, True),
    ("server", "format_reply", 100, True), ("server", "audit", 100, False),
]


def command(build, program, edits=(), scale=1.0):
    return [os.path.join(build, "bin", "programs", "whatif_real"), program,
            str(ROUNDS), str(int(UNIT * scale)), *edits]


def elapsed_ms(argv):
    begin = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


def ask(place, *words):
    return json.loads(place.ipsq_any(*words, "--format", "json"))


def predictions(place, build, program, scale=1.0):
    """{(procedure, per cent): (gain, by flat profile, by path share)} as parts
    of the path, of all CPU time, of the path."""
    answers = {}
    for i in range(RECORDED):
        name = f"{program}{i}"
        place.run(place.ipsrun(*command(build, program, scale=scale), options=(
            "--name", name, "--rate", "1")))
        profile = ask(place, "procedures", name)
        own = {r["procedure"]: r["self_ns"] for r in profile["procedures"]}
        for of, procedure, percent, _ in EDITS:
            if of != program:
                continue
            speed = ["--gone"] if percent == 100 else ["--faster",
                                                       f"{percent}%"]
            flat = own.get(procedure, 0) / profile["cpu_ns"] * percent / 100
            if procedure not in own:  # no sample: nobody can say anything
                answers.setdefault((procedure, percent), []).append((0, 0, 0))
                continue
            a = ask(place, "whatif", name, "--procedure", procedure, *speed)
            answers.setdefault((procedure, percent), []).append(
                (a["gain_ns"] / a["t_max_ns"], flat,
                 a["bound_ns"] / a["t_max_ns"]))
    return {key: [statistics.median(column) for column in zip(*rows)]
            for key, rows in answers.items()}


def first_on_the_cores():
    """What to put before a command so that nothing else is in its way."""
    chrt = ["chrt", "-r", "1"]
    try:
        done = subprocess.run([*chrt, "true"], stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        return []
    return chrt if done.returncode == 0 else []


def least_elapsed(build, program, runs, scale=1.0):
    """{(procedure, per cent) or None: ms}, None as it is."""
    kinds = [None] + [(p, n) for of, p, n, _ in EDITS if of == program]
    least, before = {}, first_on_the_cores()
    for _ in range(runs):
        for kind in random.sample(kinds, len(kinds)):
            words = [f"{kind[0]}={kind[1]}"] if kind else []
            ms = elapsed_ms(before + command(build, program, words, scale))
            least[kind] = min(ms, least.get(kind, ms))
    return least


def rows(build, runs, scale=1.0):
    """For each edit: (program, procedure, per cent, on the path?, elapsed as it
    is, change measured, predicted, naive, bound), in ms."""
    out = []
    with Place(build) as place:
        for program in dict.fromkeys(e[0] for e in EDITS):
            said = predictions(place, build, program, scale)
            least = least_elapsed(build, program, runs, scale)
            for of, procedure, percent, on_path in EDITS:
                if of != program:
                    continue
                gain, flat, bound = said[procedure, percent]
                out.append((program, procedure, percent, on_path, least[None],
                            least[None] - least[procedure, percent],
                            gain * least[None], flat * least[None],
                            bound * least[None]))
    return out


def whatif(build, runs):
    print(f"{'':<30}{'path':>5}{'elapsed':>9}{'gained':>9}{'whatif':>9}"
          f"{'profile':>9}{'bound':>9}   ms")
    errors = {"whatif": [], "profile": [], "bound": []}
    for (program, procedure, percent, on_path, elapsed, gained, said, naive,
         bound) in rows(build, runs):
        print(f"{program + ' ' + procedure + f' -{percent}%':<30}"
              f"{'on' if on_path else 'off':>5}{elapsed:>9.1f}{gained:>9.1f}"
              f"{said:>9.1f}{naive:>9.1f}{bound:>9.1f}")
        for name, value in (("whatif", said), ("profile", naive),
                            ("bound", bound)):
            errors[name].append(abs(value - gained))
    for name, values in errors.items():
        print(f"error of {name:<8} mean {statistics.mean(values):7.1f} ms, "
              f"median {statistics.median(values):7.1f} ms, "
              f"of profile's {sum(values) / sum(errors['profile']):.2f}")
