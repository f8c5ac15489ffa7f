"""`tests/bench/run short-runs`: what questions take while a script makes many runs.

A resident master and slave are started; then RUNS runs of `true` are recorded,
AT_ONCE at a time. Meanwhile one question follows another: which is the newest run, and
its objects. Beside their times is what the daemons took of the processors.
--against DIR: another build has its turn before and after, in random order.
"""
import os
import random
import statistics
import subprocess
import threading
import time

from measure import Place, cpu_of, daemons_of_ours

RUNS, AT_ONCE = 2000, 8
QUESTIONS = {"runs": ("runs", "--top", "1"), "ls": ("ls",)}


class Burst(threading.Thread):
    """Records RUNS runs, AT_ONCE at a time."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def run(self):
        one = " ".join(self.place.ipsrun("true"))
        subprocess.run(["sh", "-c", f"seq {RUNS} | xargs -P {AT_ONCE} -I N {one}"],
                       env=self.place.env, check=True)


def one_burst(build):
    """{question: [seconds]}, {daemon: seconds of CPU}"""
    took = {name: [] for name in QUESTIONS}
    with Place(build) as place:
        subprocess.Popen([os.path.join(place.bin, "ips-slave"), "--state",
                          place.state, "--pool", place.pool], env=place.env)
        while not os.path.exists(os.path.join(place.pool, "slave.lock")):
            time.sleep(0.05)
        place.run(place.ipsrun("true"))
        place.ipsq_any("ls")  # starts a master
        burst = Burst(place)
        burst.start()
        while burst.is_alive():
            for name, words in QUESTIONS.items():
                begun = time.monotonic()
                subprocess.run([os.path.join(place.bin, "ipsq"), *words],
                               env=place.env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
                took[name].append(time.monotonic() - begun)
            time.sleep(0.1)
        burst.join()
        cpu = {name: sum(cpu_of(pid) for pid, of in daemons_of_ours().items() if of == name)
               for name in ("ips-master", "ips-slave")}
    return took, cpu


def bench(build, rounds, against=None):
    builds = {"this build": build, **({"against": against} if against else {})}
    for number in range(rounds):
        for name in random.sample(list(builds), len(builds)):
            took, cpu = one_burst(builds[name])
            parts = [f"{question} median {statistics.median(times):.2f}, "
                     f"worst {max(times):.2f} s ({len(times)})"
                     for question, times in took.items()]
            parts += [f"{daemon} {seconds:.1f} s CPU"
                      for daemon, seconds in sorted(cpu.items())]
            print(f"round {number + 1}, {name}: " + "; ".join(parts), flush=True)
