"""`tests/bench/run calibrated`: property 9 of the algorithms, and DRO-7. A loop of
requests of one client (tests/programs/chatter.c: a byte to and fro, with so many
microseconds of computing between) takes, by its longest path in CPU time and
calibrated message times, what it took: on an idle machine the estimate is within
15% of the elapsed time. The more it computes, the less depends on the message times.

Before every run the machine is calibrated anew; runs of the kinds are interleaved.
The times are the run's command's, start and end included; the CPU of the calibration
is not in them. On a machine where others work the elapsed time is theirs, too.
"""
import json
import os
import random

from measure import Place, show

# (us of computing, messages each way): a second or so each
KINDS = ((0, 40000), (10, 20000), (50, 8000), (200, 3000))


def bench(build, runs):
    program = os.path.join(build, "bin", "programs", "chatter")
    with_times, without = ({k: [] for k in KINDS} for _ in range(2))
    for number in range(runs):
        for kind in random.sample(KINDS, len(KINDS)):
            pause, count = kind
            with Place(build) as place:
                place.ipsq("calibrate", "--lengths", "1,64", "--rounds", "2000",
                           "--force")
                place.run(place.ipsrun(program, str(count), str(pause),
                                       options=("--name", "loop")))
                for into, words in ((with_times, ()),
                                    (without, ("--mtime", "none"))):
                    a = json.loads(place.ipsq_any("estimate", "loop", *words,
                                                  "--format", "json"))
                    into[kind].append(a["estimate_ns"] / a["elapsed_ns"])
    for kind in KINDS:
        what = f"{kind[0]} us between messages"
        show(f"{what}: estimate / elapsed", with_times[kind], "")
        show(f"{what}: the same, messages 0", without[kind], "")
