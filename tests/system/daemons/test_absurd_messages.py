"""Well-formed messages that say absurd things. Catches: an index, a length or
a name that a daemon takes from the other side without a look at it, an ask
that nobody answers, memory that grows as long as somebody sends."""
import json
import pathlib
import socket
import struct
import threading

import pytest

import wire
from conftest import wait_until
from wire import U32, U64, message

BAD_NAMES = [b"../../x", b"..", b".", b"/etc/passwd", b"a/../b", b"a\0b",
             b"\xff\xfe\xfd", b"\x1b[31mred", b"x" * 64, b"y" * 5_000_000, b""]

# A graph of two chains of two nodes with one arc, as a slave sends it, and one
# wrong thing each. Fields are those of Subgraph.
GOOD_GRAPH = {1: [2, 2], 2: [0, 0], 3: [7, 7], 4: [7, 8], 5: [0, 1],
              6: b"\0\5\0\5", 7: b"\0\0\0\0", 8: [0, 5, 0, 6],
              9: [0, 0, 0, 0], 10: [0, 0, 0, 0], 21: 11, 22: 1}
DETAIL = {11: [1, 2, 3, 4], 12: [0, 0, 0, 0]}
BAD_GRAPHS = [
    {1: [U32, U32]}, {1: [2, U32]}, {1: [0, 4]}, {1: []}, {1: [1, 1]},
    {2: [U32, 9]}, {2: [0]}, {6: b"\0\5"}, {6: b"\xff" * 4}, {7: b"\xff" * 4},
    {6: b""}, {8: [U64] * 4}, {8: [1]}, {9: [0, 2, 0, 4]}, {9: [U64] * 4},
    {9: [0, 4, 0, 2], 7: b"\0\1\0\1"}, {9: [U32, U32, U32, U32]},
    {10: [U64] * 4, 7: b"\0\4\0\4"}, {11: [1]}, {12: [U32] * 4},
    {14: [U32], 15: [U32], 16: [U64]},
    {14: [1, 1], 15: [0, 0], 16: [0, 0]}, {14: [1], 15: [0]},
    {17: [U32], 18: [U32], 19: [U64], 20: [U32]},
    {17: [1], 18: [0], 19: [U64], 20: [U32]}, {17: [1]}, {21: U64}, {22: U32},
    {22: U32, 14: [1], 15: [U32 - 1], 16: [3]}]

# The same as the slave's joins (analysis/distributed/joins.h): none, and one candidate for
# the END.
GOOD_JOINS = bytes([0, 11, 0, 0, 0, 0, 0, 1, 3, 0, 6])
GOOD_EXPAND = message((1, [0]), (2, [0]), (3, [1]), (4, [2]), (5, [3]),
                      (6, [6]), (7, [0]), (340, [U32]), (341, [0]),
                      (342, [3]), (343, [1]))


def joins(*numbers):
    return b"".join(map(wire.varint, numbers))


# What is wrong: cut short, bytes left over, another kind, more than there can
# be, an END that is no node, ends, joins and chains that are not there, times
# past all bounds, arcs to themselves and beyond, an in that nobody has.
BAD_JOINS = [
    b"", GOOD_JOINS[:5], GOOD_JOINS[:-1], GOOD_JOINS + b"\0", b"\xff" * 50,
    joins(4, 11, 0, 0, 0, 0, 0, 0), joins(0, 11, U64, 0, 0, 0, 0, 0),
    joins(0, 11, 0, U32, U32, U32, U32, U32), joins(0, 11, 0, 0, 0, 0, 0, 1, 4, 0, 6),
    joins(0, 11, 0, 0, 0, 0, 0, 1, 3, 1, 6), joins(0, 11, 0, 0, 0, 0, 0, 1, 3, 0, U64),
    joins(0, 11, 0, 1, 1, 0, 0, 1, 1, 0, 2, 7, 7, 3, 0, 6),
    joins(0, 11, 0, 1, 1, 0, 0, 1, 1, 0, 2, 7, 7, 3, 0, 6, 5, 0),
    joins(0, 11, 0, 1, 1, 0, 0, 1, 1, 0, 2, 7, 7, 3, 0, 6, 61, 0),
    joins(0, 11, 0, 1, 1, 0, 0, 1, 1, 0, 2, 7, 7, 3, 0, 6, 1, 0),
    joins(0, 11, 0, 1, 1, 0, 0, 1, 1, 0, 2, 7, 7, 3, 0, 6, 2, 0),
    joins(0, 11, 0, 1, 1, 0, 0, 1, 1, 0, 11, 7, 7, 3, 0, 6, 3, U64),
    joins(0, 11, 0, 1, U32, 0, 0, 1, U32, 0, 2, 7, 7, 3, 0, 6, 3, 0),
    joins(0, 11, 1, 0, 0, 2, 0, 1, 1, 0, 1, 0, 3, 0, 6),
    joins(0, 11, 1, 0, 0, 0, 2, 1, 0, 1, 1, 9, 0, 5, 1, 1, 0, 3, 0, 6)]


def process(index=0, name=b"p.7", **more):
    return message((1, index), (2, 7), (3, more.get("parent", U64)), (4, name),
                   (5, b"cmd"), (6, more.get("start", 1)),
                   (7, more.get("end", 9)), (10, 5))


def thread(chain, process=0, **more):
    return message((1, chain), (2, process), (3, 7), (4, b"t"),
                   (5, more.get("start", 1)), (6, 9), (8, 5))


GOOD_TABLE = [(1, process()), (2, thread(0)), (2, thread(1))]
BAD_TABLES = [
    [(1, process(U32))], [(1, process(1)), (1, process(0))],
    [(2, thread(0))], [(1, process()), (2, thread(U32))],
    [(1, process()), (2, thread(0, U32)), (2, thread(1))],
    [(1, process(parent=99))] + GOOD_TABLE[1:],
    [(1, process(start=U64, end=U64))] + GOOD_TABLE[1:],
    [(1, process(start=9, end=1))] + GOOD_TABLE[1:],
    [(1, process(name=b"n" * 4_000_000))] + GOOD_TABLE[1:],
    [(1, process(name=b"\xff\0../x"))] + GOOD_TABLE[1:],
    GOOD_TABLE + [(2, thread(2)), (2, thread(3))], GOOD_TABLE[:2],
    GOOD_TABLE + [(3, message((1, U32), (2, U32), (4, 3)))],
    GOOD_TABLE + [(3, message((1, U32), (2, 0), (4, 2**63)))],
    GOOD_TABLE + [(3, message((1, 0), (2, 0), (4, 0), (5, U64), (6, U64)))]]


def end(index, local=b"L", remote=b"R", **more):
    return message((1, index), (2, more.get("kind", 4)), (3, local),
                   (4, remote), (5, more.get("ordinal", 0)), (6, U64),
                   (7, U64))


BAD_ENDS = [[end(U32)], [end(0), end(0)], [end(0, b"", b"")],
            [end(0, kind=U32)], [end(0, ordinal=U32)],
            [end(0, b"L" * 4_000_000)], [end(5), end(1, b"R", b"L")],
            [end(0, b"L", b"L")], [end(i) for i in range(3000)]]


def procedure(name=b"f", **more):
    return message((1, name), (2, more.get("module", b"/m")), (3, b"f.c"),
                   (5, more.get("self", 5)), (6, 7), (7, more.get("n", 1)),
                   (8, U64), (11, more.get("process", 0)))


def totals(squares=25.0, **more):
    return message((1, more.get("cpu", 9)), (2, more.get("sampled", 5)),
                   (3, more.get("unsampled", 4)), (4, more.get("n", 1)),
                   (5, 5), (7, more.get("threads", 1)),
                   (10, more.get("exact", 0))) + \
        b"\x31" + struct.pack("<d", squares)


GOOD_PROCEDURES = [(1, procedure()), (2, totals())]
BAD_PROCEDURES = [
    [], [(1, procedure())], [(2, totals(threads=0))], [(2, totals())],
    [(1, procedure(process=U32)), (2, totals())],
    [(1, procedure(self=U64)), (1, procedure(self=U64)), (2, totals())],
    [(1, procedure(b"\x1b[31m\xff\n\t", module=b"\0/")), (2, totals())],
    [(1, procedure(b"n" * 4_000_000)), (2, totals())],
    [(1, procedure(n=U64)), (2, totals(n=U64, sampled=U64, cpu=0))],
    [(1, procedure()), (2, totals(float("nan")))],
    [(1, procedure()), (2, totals(float("inf"), exact=U64))],
    [(1, procedure()), (2, totals(-1.0, sampled=0))],
    [(1, procedure(b"f%d" % i)) for i in range(20000)] + [(2, totals())]]


def code(name=b"f"):
    return message((1, name), (2, b"/m"), (3, b"f.c"))


def profile(*fields, ns=6):
    """Of a path of one piece of 6 ns; a list of the whole graph has two."""
    return message(*fields, (2, [ns]), (7, totals(cpu=6, unsampled=1)))


BAD_PROFILES = [
    b"", message((7, totals())), profile(ns=5), profile(ns=7), profile(ns=U64),
    message((2, [6] * 1000), (7, totals())), message((2, [6, 6])),
    profile((1, procedure(process=U32))),
    profile((1, procedure(self=U64)), (1, procedure(self=U64))),
    profile((1, procedure(b"n" * 4_000_000))),
    profile((1, procedure(b"\x1b[31m\xff\n\t"))),
    profile((4, [0]), (5, [1]), (6, [6])),  # a code that nobody told
    profile((3, code()), (4, [U32]), (5, [1]), (6, [6])),
    profile((3, code()), (4, [0]), (5, [U32]), (6, [6])),
    profile((3, code()), (4, [0, 0]), (5, [1]), (6, [6])),
    profile((3, code()), (4, [0] * 3), (5, [1, 0, 1]), (6, [U64] * 3)),
    profile((3, code(b"\0" * 9)), (4, [0]), (5, [1]), (6, [0])),
    message((2, [6]), (7, totals(float("nan"), n=U64, sampled=U64)), (8, U64))]


class AbsurdSlave:
    """Joins the master as a slave that knows one run and answers asks with
    what `say` has for them, else with something sound."""

    def __init__(self, sock, run, say=None, before=()):
        self.run, self.say, self.before = run, say or {}, before
        self.peer = wire.Peer.connect(sock)
        self.peer.hello(wire.SLAVE, b"evil")
        kind, hello = self.peer.get()
        assert kind == wire.HELLO and not hello.get(7), hello
        self.report()
        threading.Thread(target=self.serve, daemon=True).start()

    def state(self, name=None):
        return message((1, self.run if name is None else name), (2, b"cmd"),
                       (5, 1), (6, 2), (7, 4), (11, 1))

    def report(self, *names):
        states = [(1, self.state(n)) for n in (names or (self.run,))]
        self.peer.put(wire.REPORT, message(*states))

    def sound(self, which, ask):
        if which == wire.SYNC:
            return message((1, self.state()), (2, 4), (3, 1), (12, 9), (13, 2))
        if which == wire.TABLE:
            return message(*GOOD_TABLE)
        if which == wire.REDUCE:
            return message((1, GOOD_JOINS))
        if which == wire.SUBGRAPH:
            graph = dict(GOOD_GRAPH)
            if wire.fields(ask).get(2):
                graph.update(DETAIL)
            graph.update(self.say.get("graph", {}))
            return message(*sorted(graph.items()))
        if which == wire.PEERS:
            return message((1, 1))
        if which == wire.FINISH:
            return message((1, 6))
        if which == wire.EXPAND:
            return GOOD_EXPAND
        if which == wire.PROFILE:
            return profile()
        return message((2, 1)) if which == wire.ENDS else b""

    def serve(self):
        try:
            while got := self.peer.get():
                kind, request = got
                [which] = [n for n in request if n >= 10] or [0]
                if kind != wire.REQUEST or which in (wire.MORE, 0):
                    continue
                for number in self.before:  # replies nobody asked for
                    self.peer.put(wire.REPLY, message((1, number), (2, 1)))
                body = self.say.get(which)
                if body is None:
                    body = self.sound(which, request[which])
                self.peer.put(wire.REPLY, message(
                    (1, request[1]), (2, 1),
                    (wire.ANSWER.get(which, which), body)))
        except OSError:
            pass  # the master hung up, or the test did


QUESTIONS = [["path", "r", "--engine", "contract"],
             ["path", "r", "--engine", "central"], ["graph", "r"],
             ["metrics", "r"], ["ls", "r"]]


def try_all(c, say, questions=QUESTIONS, **more):
    slave = AbsurdSlave(c.state / "master.sock", b"r", say, **more)
    try:
        for words in questions:
            done = c.ipsq(*words, "--format", "json")
            assert done.returncode in (0, 1, 3), (say, words, done)
            if done.returncode == 1:
                assert done.stderr.strip(), (say, words)
        assert c.master.poll() is None, (say, c.log.read_text()[-2000:])
    finally:
        slave.peer.close()
    wait_until("the master saw it go", lambda: not any(
        s["connected"] for s in c.json("status")["slaves"]
        if s["machine"] == "evil"))


def master_alone(cluster):
    c = cluster([])
    return c


def test_absurd_slave_is_sound_to_begin_with(cluster):
    """Else the tests below would be refused for another reason."""
    c = master_alone(cluster)
    slave = AbsurdSlave(c.state / "master.sock", b"r")
    wait_until("the run is known", lambda: "r" in c.runs())
    for engine in ("contract", "central"):
        done = c.ipsq("path", "r", "--engine", engine, "--format", "json")
        assert done.returncode in (0, 3), done
        assert json.loads(done.stdout)
    slave.peer.close()


def test_absurd_graphs_to_the_master(cluster):
    c = master_alone(cluster)
    for bad in BAD_GRAPHS:
        try_all(c, {"graph": bad}, QUESTIONS[:3])


def test_absurd_tables_to_the_master(cluster):
    c = master_alone(cluster)
    for bad in BAD_TABLES:
        try_all(c, {wire.TABLE: message(*bad)}, QUESTIONS[3:] + QUESTIONS[:1])


def test_absurd_answers_to_the_master(cluster):
    c = master_alone(cluster)
    for bad in BAD_ENDS:
        try_all(c, {wire.ENDS: message(*((1, e) for e in bad), (2, 1))},
                QUESTIONS[:2])
    path = QUESTIONS[:1]
    everything = message(*((n, U64) for n in range(2, 14) if n != 11))
    state = message((1, b"r"), (8, [U64] * 100), *((n, U64) for n in (5, 6, 7)))
    for say in ({wire.SYNC: everything},
                {wire.SYNC: message((1, state)) + everything},
                {wire.SYNC: message((1, message((1, b"../../x"))))},
                {wire.PEERS: message((1, U64), (2, U64), (5, U64))},
                {wire.FINISH: message((1, U64))}, {wire.FINISH: b""},
                {wire.EXPAND: b""}, {wire.EXPAND: message((6, [1, 2]))},
                {wire.EXPAND: message(*((n, [U32]) for n in range(1, 8)))},
                {wire.EXPAND: message((1, [9]), (2, [9]), (3, [U32]),
                                      (4, [U32]), (5, [U32]), (6, [U64]),
                                      (7, [U32]))},
                *({wire.EXPAND: GOOD_EXPAND + message(more)} for more in (
                    (7, [1]), (340, [0]), (342, [U32]), (343, [U32]),
                    (341, [U32]), (6, [7]), (342, [2]))),
                *({wire.REDUCE: message((1, bad))} for bad in BAD_JOINS)):
        try_all(c, say, path)
    try_all(c, {}, QUESTIONS, before=(0, 1, 5, U64))
    ask = [["procedures", "r"], ["procedures", "r", "--by", "process"]]
    for bad in BAD_PROCEDURES:
        try_all(c, {wire.PROCEDURES: message(*bad)}, ask)
    for bad in BAD_PROFILES:
        try_all(c, {wire.PROFILE: bad},
                [["path", "r"], ["path", "r", "--sequences", "--by", "line"],
                 ["path", "r", "--whole", "--sequences", "--to", "1s"]])
    slave = AbsurdSlave(c.state / "master.sock", b"r",
                        {wire.PROCEDURES: message(*GOOD_PROCEDURES)})
    row = c.json("procedures", "r")["procedures"][0]
    assert row["procedure"] == "f" and row["self_ns"] == 5
    slave.peer.close()


def test_names_of_runs_in_reports(cluster):
    """What a slave calls its runs reaches people's terminals and JSON."""
    c = master_alone(cluster)
    slave = AbsurdSlave(c.state / "master.sock", b"r")
    bad = [n for n in BAD_NAMES if b"\0" not in n and len(n) < 100]
    slave.report(*bad, b"r2")
    wait_until("the good one is known", lambda: "r2" in c.runs())
    listed = c.ipsq("runs", "--format", "json")
    assert listed.returncode == 0
    assert {r["run"] for r in json.loads(listed.stdout)["runs"]} == {"r", "r2"}
    slave.peer.close()
    assert c.master.poll() is None


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def test_flood_of_questions(cluster):
    """Each of a thousand questions at once gets its one last reply."""
    c = cluster()
    peer = wire.Peer.connect(c.state / "master.sock")
    peer.hello(wire.CLIENT)
    assert peer.get()[0] == wire.HELLO
    kinds = (wire.RUNS, wire.STATUS, wire.LS, wire.PATH, wire.EVENTS, 99,
             wire.SYNC)
    sender = threading.Thread(target=lambda: [
        peer.ask(i, BAD_NAMES[i % 9], kinds[i % len(kinds)])
        for i in range(1, 1001)])
    sender.start()
    open_asks = set(range(1, 1001))
    while open_asks:
        kind, reply = peer.get()
        assert kind == wire.REPLY
        if reply.get(2):
            open_asks.remove(reply[1])
    sender.join()
    peer.close()
    assert c.json("status")["slaves"][0]["connected"]


def test_client_that_never_reads(cluster):
    c = cluster()
    before = rss_kib(c.master.pid)
    deaf = wire.Peer.connect(c.state / "master.sock")
    deaf.hello(wire.CLIENT)
    deaf.sock.settimeout(3)
    try:
        for i in range(200_000):
            deaf.ask(i, b"", wire.STATUS)
    except (socket.timeout, OSError):
        pass  # held up, or hung up on: either will do
    assert c.json("status")["slaves"][0]["connected"]
    assert rss_kib(c.master.pid) - before < 256 * 1024
    deaf.close()


class AbsurdMaster:
    """What a slave is told to call; asks it whatever a test likes."""

    def __init__(self, c):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(c.state / "master.sock"))
        self.listener.listen(8)
        self.number = 0

    def accept(self):
        """The next that says it is a slave; ipsrun looks in too."""
        while True:
            peer = wire.Peer(self.listener.accept()[0])
            got = peer.get()
            if got and got[1].get(3) == wire.SLAVE:
                peer.hello(wire.MASTER)
                self.peer = peer
                return

    def ask(self, run, which, ask=b""):
        self.number += 1
        self.peer.ask(self.number, run, which, ask)
        return self.peer.answer_to(self.number)


@pytest.fixture
def asked_slave(build, cluster):
    c = cluster(["m1"])
    c.ipsrun([c.build.program("chatter"), 20], name="r1", check=True)
    c.wait_closed("r1")
    c.stop_master()
    sock = c.state / "master.sock"
    sock.unlink(missing_ok=True)
    master = AbsurdMaster(c)
    master.accept()
    yield c, master
    master.peer.close()
    master.listener.close()


def run_name(c):
    """As the slave calls it: root's have a random part."""
    [name] = [d.name for d in (c.machines[0].state / "slave-m1" / "runs").iterdir()]
    return name.encode()


def test_absurd_asks_to_a_slave(asked_slave):
    c, master = asked_slave
    run = run_name(c)
    sync = wire.fields(master.ask(run, wire.SYNC)[20])
    gen = sync[3]

    def refused(which, *what):
        reply = master.ask(run, which, message(*what))
        assert reply.get(3), (which, what, reply)

    for which in (wire.PEERS, wire.REDUCE, wire.FINISH, wire.EXPAND,
                  wire.SUBGRAPH):
        for stale in (0, gen + 1, U64):
            refused(which, (1, stale))
    for pieces in (((3, [0]),), ((4, [1]),), ((3, [U32]), (4, [1])),
                   ((3, [0]), (4, [U32])), ((3, [1]), (4, [0])),
                   ((3, [0]), (4, [U32 - 1])), ((3, [0, 0]), (4, [1, 1])),
                   ((3, [0]), (4, [1]), (10, [1, 2])),
                   ((3, [0]), (4, [1]), (5, 1), (10, [1]))):
        refused(wire.PROFILE, (1, gen), (2, b"line"), (6, 1), *pieces)
    for more in ((5, 1), (2, b"\xff" * 1_000_000), (7, U64), (8, U64),
                 (3, [0])):
        master.ask(run, wire.PROFILE, message((1, gen), (6, 1), more))
    refused(wire.EXPAND, (1, gen), (2, [0]), (3, [0]))  # before Finish
    refused(wire.PEERS, (1, gen), (2, message((1, U32), (2, 1))))
    refused(wire.FINISH, (1, gen), (340, b"\1" * 77), (341, 77))
    refused(wire.FINISH, (1, gen), (340, b"\1"))
    refused(wire.FINISH, (1, gen), (341, U32))
    refused(wire.FINISH, (1, gen),  # message times past all bounds
            (2, message((1, U64), (2, U64), (3, U32), (4, 1), (5, 99))))
    assert not master.ask(run, wire.FINISH, message((1, gen))).get(3)
    refused(wire.EXPAND, (1, gen), (2, [U32]), (3, [U32]))
    refused(wire.EXPAND, (1, gen), (2, [U32 - 1]), (3, [1]))
    refused(wire.EXPAND, (1, gen), (2, [0, 0]), (3, [1]))
    for pairs in (((340, [U32]), (341, [0])), ((340, [0]), (341, [U32])),
                  ((340, [0, 0]), (341, [0])), ((341, [0]),)):
        refused(wire.EXPAND, (1, gen), (2, [0]), (3, [0]), *pairs)
    master.ask(run, wire.EXPAND, message((1, gen), (2, [3]), (3, [0])))
    for lane in (message((3, 0), (4, 0)), message((1, U64), (3, U32)),
                 message((5, U32))):
        master.ask(run, wire.REDUCE, message((1, gen), (2, lane)))
    for events in (((1, b"/" * 5_000_000),), ((1, b"/x/../../y"),),
                   ((2, U64), (3, 1), (4, U64)), ((1, b"\xff\0"),)):
        master.ask(run, wire.EVENTS, message(*events))
    for stale in (0, gen + 1, U64):
        refused(wire.PROCEDURES, (5, stale))
        refused(wire.PROFILE, (1, stale))
    for ask in ((1, b"/" * 5_000_000), (2, b"x" * 5_000_000), (4, b"\xff/"),
                (1, b"/x/../../y")):
        assert not master.ask(run, wire.PROCEDURES,
                              message(ask, (5, gen))).get(3)
    refused(99)
    assert c.machines[0].slave.poll() is None
    assert master.ask(run, wire.SYNC)[20]


def test_names_of_runs_in_asks(asked_slave):
    """No name leads out of the slave's directory, or makes anything in it."""
    c, master = asked_slave
    before = sorted(c.root.rglob("*"))
    for name in BAD_NAMES:
        for which in (wire.SYNC, wire.TABLE, wire.ENDS, wire.EVENTS):
            assert master.ask(name, which).get(3), name[:20]
    made = set(c.root.rglob("*")) - set(before)
    assert not [p for p in made if "runs" in p.parts], made
    assert c.machines[0].slave.poll() is None


def test_flood_of_asks_and_unfinished_lists(asked_slave):
    """A thousand asks get a thousand answers; lists that are begun and never
    ended are given up, not kept."""
    c, master = asked_slave
    run, peer = run_name(c), master.peer
    for i in range(1000, 2000):
        peer.ask(i, run, (wire.SYNC, wire.TABLE, wire.ENDS)[i % 3])
    left = set(range(1000, 2000))
    while left:
        kind, reply = peer.get()
        if kind == wire.REPLY and reply.get(2):
            left.discard(reply[1])
    before = rss_kib(c.machines[0].slave.pid)
    values = message((1, 1), (3, [1] * 1_000_000), (4, 1))
    for i in range(3000, 3120):
        peer.ask(i, run, wire.FINISH, values)
    assert master.ask(run, wire.SYNC)[20]
    assert rss_kib(c.machines[0].slave.pid) - before < 700 * 1024
    assert c.machines[0].slave.poll() is None
