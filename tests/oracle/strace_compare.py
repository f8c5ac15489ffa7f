"""Compares two observations of one execution: strace's (strace_model.Model) and
IPS's (a View made from `ipsq graph` and `ipsq ls`, or from the pool's records).

Both see the same pids and the same transfers in the same order within a thread,
so the k-th send of a thread is the same send for both. Nothing is compared by
time. The result lists every difference in words; `excluded` counts the arcs
that strace itself cannot order.
"""


class ViewOp:
    """kind: send recv eof connect accept; "out" is a send or a connect, "in" an
    end-of-file or an accept, where IPS does not say which; bytes None likewise.
    src: recv, accept -> (tid, n): the thread's n-th send or connect, counted
    together; eof -> (pid,); None: no arc."""
    __slots__ = ("kind", "bytes", "channel", "src", "label")

    def __init__(self, kind, nbytes, channel=None, src=None, label=""):
        self.kind, self.bytes, self.channel = kind, nbytes, channel
        self.src, self.label = src, label


class View:
    """What IPS says, in the matcher's terms."""

    def __init__(self):
        self.parent = {}    # pid -> parent pid or None (the root)
        self.pid_of = {}    # tid -> pid
        self.ops = {}       # tid -> [ViewOp]
        self.born = {}      # tid -> (creating tid, k-th creation) or None
        self.joins = {}     # tid -> [child pid]
        self.rooms = []     # [((tid, n-th send), (tid, n-th receive))]: the
                            # receive that let a blocked send return
        self.returns = {}   # (tid, k-th creation) -> child whose exec or end
                            # let vfork or posix_spawn return
        self.has_arcs = True
        self.has_processes = True


class Result:
    def __init__(self):
        self.differences = []
        self.arcs = {}       # kind -> number compared equal
        self.excluded = 0
        self.silent = []     # (program, tid): its start was not recorded, and
                             # it moved no bytes
        self.ends = 0        # (end, direction) whose bytes were compared
        self.total_bytes = 0

    def differ(self, text, *args):
        self.differences.append(text % args if args else text)

    def count(self, kind):
        self.arcs[kind] = self.arcs.get(kind, 0) + 1

    @property
    def compared(self):
        return sum(self.arcs.values())

    def summary(self):
        return "%d ends, %d bytes, arcs %s, excluded %d, differences %d" % (
            self.ends, self.total_bytes,
            " ".join("%s %d" % a for a in sorted(self.arcs.items())),
            self.excluded, len(self.differences))


def launcher_tids(model, launcher="ipsrun"):
    """Processes of ipsrun itself: the root before it executed the program, and
    what it started till then. Returns (root pid, images of root to skip)."""
    for proc in model.procs.values():
        if proc.ppid is None:
            skip = 0
            while skip < len(proc.execs) and \
                    proc.execs[skip].rsplit("/", 1)[-1] == launcher:
                skip += 1
            return proc.pid, skip
    return None, 0


def compare(model, view, untraced=()):
    """`untraced`: pids that IPS is not expected to know."""
    result = Result()
    root, skip = launcher_tids(model)
    dropped = set(untraced)
    for proc in model.procs.values():  # helpers of the launcher
        if proc.by_tid == root and skip and proc.start < _exec_line(model,
                                                                    root, skip):
            dropped.add(proc.pid)
    if view.has_processes:
        _processes(model, view, dropped, result)
    pairs = {}  # id(Op) -> ViewOp; and (tid, kind, k) both ways
    for tid, pid in sorted(model.pid_of.items()):
        if pid in dropped:
            continue
        ops = [o for o in model.ops.get(tid, [])
               if o.stream and not (pid == root and o.image < skip)]
        _align(tid, ops, view.ops.get(tid, []), pairs, result,
               model.cut.get(tid))
    for tid in view.ops:
        if tid not in model.pid_of:
            result.differ("thread %d has operations, strace never saw it", tid)
    _channels(model, pairs, result)
    if view.has_arcs:
        _arcs(pairs, result, dropped)
        _rooms(model, view, pairs, result)
        _returns(model, view, dropped, root, skip, result)
    if view.has_processes:
        _births(model, view, dropped, root, skip, result)
    return result


def proc_name(model, pid):
    return (model.procs[pid].comm or "?").rsplit("/", 1)[-1]


def _exec_line(model, root, skip):
    return model.procs[root].exec_lines[skip - 1]


def _processes(model, view, dropped, result):
    for pid, proc in sorted(model.procs.items()):
        if pid in dropped:
            continue
        if pid not in view.parent:
            result.differ("process %d (%s, of %s) is missing", pid, proc.comm,
                          proc.ppid)
            continue
        if view.parent[pid] != proc.ppid:
            result.differ("process %d (%s): parent %s, strace %s", pid,
                          proc.comm, view.parent[pid], proc.ppid)
        result.count("process")
    for pid in view.parent:
        if pid not in model.procs:
            result.differ("process %d is recorded, strace never saw it", pid)
    for tid, pid in sorted(model.pid_of.items()):
        if tid != pid and pid not in dropped:
            if tid not in view.pid_of and not model.ops.get(tid):
                result.silent.append((proc_name(model, pid), tid))
            elif view.pid_of.get(tid) != pid:
                result.differ("thread %d of %d: IPS has process %s", tid, pid,
                              view.pid_of.get(tid))
            else:
                result.count("thread")


def _like(op, other):
    if other.kind == "out":
        return op.kind in ("send", "connect")
    if other.kind == "in":
        return op.kind in ("eof", "accept")
    return op.kind == other.kind and op.bytes == other.bytes


def _align(tid, ours, theirs, pairs, result, cut=None):
    """Pairs the operations of one thread: the two sequences must be equal; past
    a difference they are re-aligned greedily so that one missing operation is
    one difference. `cut`: the call after which another thread or a signal ended
    this one, perhaps before its record was written."""
    i = j = 0
    while i < len(ours) or j < len(theirs):
        if i < len(ours) and j < len(theirs) and _like(ours[i], theirs[j]):
            pairs[id(ours[i])] = (ours[i], theirs[j])
            i, j = i + 1, j + 1
            continue
        step = _resync(ours, i, theirs, j)
        for op in ours[i:i + step[0]]:
            if op is ours[-1] and op.call is cut:
                result.excluded += 1
                continue
            result.differ("thread %d: not recorded: %r (%s, line %d: %s)", tid,
                          op, op.call.name, op.first + 1, op.call.args[:80])
        for op in theirs[j:j + step[1]]:
            result.differ("thread %d: recorded but not in strace: %s %s on %s "
                          "(%s)", tid, op.kind, op.bytes, op.channel, op.label)
        i, j = i + step[0], j + step[1]


def _resync(ours, i, theirs, j, reach=40):
    """Smallest (a, b) with ours[i+a] like theirs[j+b]."""
    for total in range(1, reach):
        for a in range(total + 1):
            b = total - a
            if i + a < len(ours) and j + b < len(theirs) and \
                    _like(ours[i + a], theirs[j + b]):
                return a, b
            if i + a == len(ours) and j + b == len(theirs):
                return a, b
    return len(ours) - i, len(theirs) - j


def _channels(model, pairs, result):
    """Channel names must map one to one onto strace's ends, and so the bytes of
    each end and direction are equal."""
    there, back = {}, {}
    mine, its = {}, {}
    for op, other in pairs.values():
        if op.kind == "connect" and op.key is None:
            continue  # never got its endpoints
        if other.channel is not None and op.kind in ("send", "recv", "eof"):
            if there.setdefault(op.key, other.channel) != other.channel:
                result.differ("%r is on %s, other transfers of that end on %s",
                              op, other.channel, there[op.key])
            side = op.key[0] != "pipe"
            if side and back.setdefault(other.channel, op.key) != op.key:
                result.differ("channel %s is %s and %s", other.channel, op.key,
                              back[other.channel])
        if op.kind in ("send", "recv"):
            mine[op.key, op.kind] = mine.get((op.key, op.kind), 0) + op.bytes
            its[op.key, op.kind] = its.get((op.key, op.kind), 0) + \
                (op.bytes if other.kind == "out" else other.bytes)
    result.ends = len(mine)
    result.total_bytes = sum(mine.values())
    for slot, n in mine.items():
        if its[slot] != n:
            result.differ("%s: %d bytes, strace %d", slot, its[slot], n)


def _arcs(pairs, result, dropped):
    order = {}  # tid -> its sends and connects that both have
    for op, other in pairs.values():
        if op.kind in ("send", "connect"):
            order.setdefault(op.tid, []).append(op)
    number = {}
    for ops in order.values():
        ops.sort(key=lambda o: o.last)
        number.update((id(o), n) for n, o in enumerate(ops))
    for op, other in sorted(pairs.values(), key=lambda p: p[0].first):
        if op.kind in ("send", "connect"):
            continue
        if op.ambiguous:
            result.excluded += 1
            continue
        src = op.src
        if src is not None and src.pid in dropped:
            src = None
        if src is None:
            want = None
        elif op.kind in ("eof", "broken"):
            # Where the reader itself closed last, IPS says who did before it:
            # each call takes long under strace, so that it seems to have slept.
            own = src.before if src.pids == {op.pid} else set()
            if other.src is not None and other.src[0] in src.pids | own:
                result.count(op.kind)
                continue
            want = ("one of", sorted(src.pids), src.how)
        else:
            want = (src.tid, number.get(id(src), "unrecorded"))
        if other.src == want:
            result.count(op.kind if want is not None else "none")
        else:
            result.differ("%r: arc from %s (%s), strace %s", op, other.src,
                          other.label, want)


def _rooms(model, view, pairs, result):
    """The receive took bytes of the channel that the send wrote to, and its stamp
    of the call may be earlier than the send's thread went on. Which of several made the room
    that was needed, strace cannot say."""
    outs, ins = {}, {}
    for op, _ in sorted(pairs.values(), key=lambda p: p[0].last):
        if op.kind in ("send", "connect"):
            outs.setdefault(op.tid, []).append(op)
        elif op.kind != "broken":
            ins.setdefault(op.tid, []).append(op)
    written = {}  # key of a receive's channel is known by its own arc
    for ops in ins.values():
        for op in ops:
            if op.kind == "recv" and op.src is not None:
                written.setdefault(op.key, op.src.key)
    for (tid, n), (other, k) in view.rooms:
        send = outs[tid][n] if n < len(outs.get(tid, [])) else None
        recv = ins[other][k] if k < len(ins.get(other, [])) else None
        if send is None or recv is None or recv.kind != "recv" or \
                written.get(recv.key) != send.key or \
                (recv.call.since or 0) > send.call.until:
            result.differ("room for %r by %r: not by strace", send, recv)
        else:
            result.count("room")


def _returns(model, view, dropped, root, skip, result):
    """vfork and posix_spawn return when the child executes or ends."""
    for tid, forks in model.forks.items():
        if model.pid_of[tid] in dropped:
            continue
        first = _exec_line(model, root, skip) if tid == root and skip else -1
        mine = [f for f in forks if f[2].enter > first]
        for k, (child, _, call) in enumerate(mine):
            vfork = child in model.procs and \
                model.procs[child].how == "vfork"
            got = view.returns.get((tid, k))
            if vfork and got is None and _at_once(model, tid, mine, k):
                result.count("system")  # the wait's arc says more
            elif got != (child if vfork else None):
                result.differ("return of creation %d of %d (%s %d): hangs on "
                              "%s", k, tid, call.name, child, got)
            elif vfork:
                result.count("vfork return")


def _at_once(model, tid, forks, k):
    """What the thread next did with a child was to wait for this one, as
    system() does."""
    after = [j for j in model.joins.get(tid, []) if j[1].leave >
             forks[k][2].leave]
    return bool(after) and after[0][0] == forks[k][0] and (
        k + 1 == len(forks) or forks[k + 1][2].enter > after[0][1].leave)


def _births(model, view, dropped, root, skip, result):
    for tid, forks in model.forks.items():
        if model.pid_of[tid] in dropped:
            continue
        first = _exec_line(model, root, skip) if tid == root and skip else -1
        mine = [f for f in forks if f[2].enter > first]
        for k, (child, is_thread, _) in enumerate(mine):
            if child in dropped or (is_thread and
                                    child not in view.pid_of):
                continue  # k still counts: it was created
            if is_thread and view.born.get(child) is None and \
                    not model.ops.get(child):
                result.silent.append((proc_name(model, model.pid_of[tid]),
                                      child))
            elif view.born.get(child) == (tid, k):
                result.count("thread start" if is_thread else "start")
            else:
                result.differ("%s %d: born of %s, strace %s",
                              "thread" if is_thread else "process", child,
                              view.born.get(child), (tid, k))
    for tid, joins in model.joins.items():
        if model.pid_of[tid] in dropped:
            continue
        want = [child for child, _ in joins if child in model.procs
                and child not in dropped]
        got = view.joins.get(tid, [])
        if want != got:
            result.differ("thread %d waited for %s, IPS has %s", tid, want, got)
        for _ in want:
            result.count("join")
