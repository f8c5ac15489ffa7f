"""Phases of a series, by their definition (analysis/explain/phases.h) and nothing else:
levels by counting, likelihoods in floating point, every stretch costed from its
bins, and every cut there is by dynamic programming. Shares no code and no table
with the C, whose answers it is held against."""
import itertools
import math
from fractions import Fraction

LEVELS = 15


def levels(values):
    """For each level the set of bins below it, as a list of booleans."""
    order = sorted(values)
    n = len(values)
    for k in range(1, LEVELS + 1):
        q = order[k * n // (LEVELS + 1)]
        low_half = k <= LEVELS // 2
        if q == order[0]:
            below = [v <= q for v in values]
        elif q == order[-1] or low_half:
            below = [v < q for v in values]
        else:
            below = [v <= q for v in values]
        yield below


def bits(part, whole):
    return part * math.log2(whole / part) if part else 0.0


class Cut:
    def __init__(self, series):
        self.n = len(series[0])
        # Of each level how many of the first i bins are below it.
        self.sides = [[0, *itertools.accumulate(side)]
                      for values in series for side in levels(values)]
        self.penalty = 2 * math.log2(self.n)
        self.known = {}

    def stretch(self, begin, end):
        if (begin, end) not in self.known:
            length, cost = end - begin, 0.0
            for side in self.sides:
                below = side[end] - side[begin]
                cost += bits(below, length) + bits(length - below, length)
            self.known[begin, end] = cost / LEVELS
        return self.known[begin, end]

    def cost(self, ends):
        begins = [0] + list(ends[:-1])
        return (sum(self.stretch(b, e) for b, e in zip(begins, ends))
                + self.penalty * (len(ends) - 1))

    def best(self):
        """The least cost of all cuts."""
        least = [-self.penalty]
        for end in range(1, self.n + 1):
            least.append(min(least[begin] + self.penalty
                             + self.stretch(begin, end)
                             for begin in range(end)))
        return least[self.n]


def mean(values, begin, end):
    return Fraction(sum(values[begin:end]), end - begin)


def alike(series, least, begin, mid, end):
    for values in series:
        a, b = mean(values, begin, mid), mean(values, mid, end)
        if a != b and abs(a - b) >= max(a, b) / 8 and abs(a - b) >= least:
            return False
    return True


def differences(answer, tolerance=1e-3):
    """What is wrong with an answer of phase_series; nothing: []."""
    series, ends, found = answer["series"], answer["cut"], answer["found"]
    cut = Cut(series)
    if ends != sorted(set(ends)) or ends[-1] != cut.n or ends[0] < 1:
        return [f"no cut: {ends}"]
    wrong = []
    if abs(cut.cost(ends) - answer["cost"]) > tolerance:
        wrong.append(f"costs {cut.cost(ends)}, not {answer['cost']}")
    if cut.cost(ends) > cut.best() + tolerance:
        wrong.append(f"{cut.best()} is to be had, not {cut.cost(ends)}")
    if not set(found) <= set(ends) or found[-1] != cut.n:
        wrong.append(f"phases {found} are no part of the cut {ends}")
    begins = [0] + found
    for i in range(len(found) - 1):
        if alike(series, answer["least"], begins[i], found[i], found[i + 1]):
            wrong.append(f"nothing changes at {found[i]}")
    # One step of merging at a time: what is left out was alike, the cheapest
    # of those first.
    left = list(ends)
    while len(left) > 1:
        begins = [0] + left
        steps = [(cut.stretch(begins[i], left[i + 1])
                  - cut.stretch(begins[i], left[i])
                  - cut.stretch(left[i], left[i + 1]), left[i])
                 for i in range(len(left) - 1)
                 if alike(series, answer["least"], begins[i], left[i],
                          left[i + 1])]
        if not steps:
            break
        steps.sort()
        close = [at for cost, at in steps if cost < steps[0][0] + tolerance]
        gone = [at for at in close if at not in found]
        left.remove((gone or close)[0])
    if left != found:
        wrong.append(f"phases {found}, expected {left}")
    return wrong
