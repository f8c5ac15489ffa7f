"""The runs whose answers are frozen (test_frozen.py): small, and each with other
records, so that every question has something to answer. No clock is read."""
from frozen_elf import (ENCODE, IDLE, LOOKUP, MAIN, NAMES, PARSE, SERVE, SUM,
                        address_of, at, code, join_all)
from frozen_pool import (COND, EPOLL, EVENTFD, FLOCK, PIPE, POLL, RDLOCK, RECV,
                         RECV_SHORT, RECVCALL, RESOLVE, SEMAPHORE, SEND_SHORT,
                         TERMINAL, UDP, UNIX, USER, WRLOCK, Draw, Frozen)
from frozen_random import Program
from told import ACCEPTED, CONNECTED, MS, MUTEX, US, Lock


def bare(_):
    """One thread that does nothing but compute."""
    run = Frozen(cores=1, command="bare", number=1)
    main = run.root("bare")
    main.work(5 * MS)
    main.end()
    return run


def locks(program):
    """A lock that three threads want, with one moment of release and of ends; a
    barrier, a condition, semaphores, readers and writers, a spin lock, a wait
    that runs out of time, and a file lock."""
    run = Frozen(cores=4, command="locks --threads 3", tags=("k=v", "size=3"),
                 number=2)
    main = run.root("locks")
    code(main, program)
    main.stack = at((MAIN, 2))
    threads = [main.thread(f"t{k}") for k in range(3)]
    lock, other = Lock(0x1000), Lock(0x2000)
    for k, t in enumerate(threads):
        t.work((k + 1) * MS, *at(PARSE, MAIN))
        t.stack = at((PARSE, 3), (MAIN, 5))
        t.free(MUTEX, 0x1000, 0)
    for turn in range(3):
        for k, t in enumerate(threads):
            t.stack = at((LOOKUP, turn), (MAIN, 6))
            t.locked(lock, (3 + k) * MS)
            t.stack = at((ENCODE, 1), (MAIN, 7))
            t.locked(other, 1 * MS + k * 10 * US)
            t.work(500 * US, *at(ENCODE, MAIN))
    opens = max(t.now for t in threads) + 1 * MS
    for t in threads:
        t.stack = at((SUM, 4), (MAIN, 9))
        t.arrive(opens, 0x3000)
    a, b, c = threads
    a.work(4 * MS, *at(SUM, MAIN))
    a.let_go(COND, 0x4000, -1)
    b.wait_for(COND, 0x4000, a.now)
    c.wait_for(COND, 0x4000, a.now, err=0)
    b.work(2 * MS)
    b.let_go(SEMAPHORE, 0x5000, 2)
    a.wait_for(SEMAPHORE, 0x5000, b.now)
    c.wait_for(SEMAPHORE, 0x5000, b.now)
    a.free(WRLOCK, 0x6000, 3 * MS)
    a.let_go(WRLOCK, 0x6000)
    b.wait_for(RDLOCK, 0x6000, a.now)
    c.wait_for(RDLOCK, 0x6000, a.now)
    b.let_go(RDLOCK, 0x6000)
    c.wait_for(COND, 0x7000, c.now + 2 * MS, err=110)
    a.wait_for(FLOCK, 0x8000, a.now + 1 * MS)
    c.stack = at((IDLE, 2), (MAIN, 11))
    c.read(3 * MS)
    end = max(t.now for t in threads) + 1 * MS
    for t in threads:
        t.until(end)
        t.end()  # all at one ns
    join_all(main, threads)
    return run


def tree(program):
    """Processes: forked, executed, untraced, one that a signal ended; a pipe between
    two, polls, signals, what was lost and what recording cost."""
    run = Frozen(cores=2, command="sh -c 'a | b'", tags=("who=tree",), number=3)
    run.probe_ps = dict(enumerate(range(50_000, 92_000, 2_000)))
    run.lost = (0, 3)
    main = run.root("sh")
    main.name("sh -c 'a | b'")
    code(main, program)
    main.work(1 * MS, *at(MAIN))
    sh = main.execute("/bin/sh")
    sh.name("sh -c 'a | b'")
    code(sh, program)
    sh.work(2 * MS, *at(PARSE, MAIN))
    a = sh.fork("a")
    sh.work(300 * US)
    b = sh.fork("b")
    ends = [t.channel(k + 1, PIPE, side, ino=77) for k, (t, side) in
            enumerate(((a, 2), (b, 1)))]
    for k in range(6):
        a.stack, b.stack = at((ENCODE, k), (SERVE, 3)), at((PARSE, k),)
        a.work(2 * MS, *at(ENCODE, SERVE, MAIN))
        sent = a.send(ends[0], 1000 + k)
        if k % 2:
            b.block(POLL, max(0, sent - b.now) + 20 * US, ready=ends[1])
        b.receive(ends[1], 1000 + k, sent + 30 * US)
        b.work(1 * MS + k * 100 * US, *at(PARSE, MAIN))
        b.queue(200 * US)
    a.kill(10, b)
    b.until(max(a.now, b.now) + 10 * US)
    b.signal(10, a.pid)
    b.unseen("io_uring")
    b.lost(2, 5)
    b.lost_here = (0, 0, 5)
    a.close(ends[0])
    a.guessed(4, 3 * MS, 20 * US, 9 * US)
    a.calls(300, 40_000)
    a.sleep(4 * MS)
    a.end()
    b.receive(ends[1], 0, a.now)
    b.block(TERMINAL, 5 * MS)
    b.block(RESOLVE, 2 * MS)
    b.status = 3
    b.end()
    sh._put("fork", 1, sh.now, sh.cpu, 5_900_001, 90)  # never seen again
    sh.work(1 * MS)
    sh.child_cpu = a.cpu + 1 * MS
    sh.join(a)
    sh.join(b)
    sh.work(1 * MS, *at(SUM, MAIN))
    sh.end()
    return run


def shop(program, number=4, more=0, cores=2):
    """Three clients ask a server on another machine, that has a lock, a worker and a
    disk; the last one asks twice at once."""
    run = Frozen(cores=cores, command="shop", number=number)
    client = run.root("client")
    server = run.root("server", machine=1)
    code(client, program)
    code(server, program)
    worker = server.thread("worker")
    clients = [client, *(client.thread(f"c{k}") for k in range(2))]
    lock = Lock(0x1000)
    ends = [c.connect(server) for c in clients]
    back = run.channel(), run.channel()
    server.channel(back[0], UNIX, 3, CONNECTED, 500, 501)
    worker.channel(back[1], UNIX, 3, ACCEPTED, 501, 500)
    draw = Draw(number)
    for turn in range(12):
        sent = []
        for k, c in enumerate(clients):
            c.stack = at((MAIN, 3 + k))
            c.work((200 + draw(400)) * US, *at(ENCODE, MAIN))
            sent.append((ends[k][0].send(100 + k), 100 + k, k))
        for when, size, k in sorted(sent):
            server.stack = at((SERVE, 2), (MAIN, 4))
            arrived = when + 50 * US
            if server.now > arrived:
                server.queued(arrived)
            server.block(EPOLL, max(0, arrived - server.now),
                         ready=ends[k][1].id)
            ends[k][1].receive(size, when, 50 * US)
            server.work((150 + draw(100) + more) * US, *at(PARSE, SERVE, MAIN))
            server.work(250 * US, *at((LOOKUP, 2), SERVE, MAIN))
            if turn % 3 == k:
                server.stack = at((LOOKUP, 5), (SERVE, 7))
                server.read((2 + turn) * 100 * US)
            if turn % 4 == 0:
                asked = server.send(back[0], 30)
                worker.stack = at((IDLE, 1))
                worker.receive(back[1], 30, asked)
                worker.locked(lock, 300 * US)
                worker.work(100 * US, *at(SUM, IDLE))
                told = worker.send(back[1], 40)
                server.stack = at((SERVE, 9), (MAIN, 4))
                server.receive(back[0], 40, told)
            else:
                server.stack = at((SERVE, 11), (MAIN, 4))
                server.locked(lock, 80 * US)
            server.stack = at((SERVE, 13), (MAIN, 4))
            done = ends[k][1].send(500)
            clients[k].stack = at((MAIN, 8))
            ends[k][0].receive(500, done, 60 * US)
    for t in (*clients[1:], worker):
        t.end()
        (client if t is not worker else server).join(t)
    client.end()
    server.queue(40 * US)
    server.end()
    return run


def chain(program):
    """Three machines: a client, a front and a back; datagrams, some twice and one
    lost; a channel that the program named; an untraced peer and client."""
    run = Frozen(cores=2, command="chain", number=5)
    client = run.root("client")
    front, back = run.root("front", machine=1), run.root("back", machine=2)
    for t in (client, front, back):
        code(t, program)
    ask, serve = client.connect(front)
    onward, behind = front.connect(back)
    client.connected(ask, serve, 700 * US)
    front.connected(onward, behind, 0)
    udp, its_udp = run.channel(), run.channel()
    client.channel(udp, UDP, 3)
    back.channel(its_udp, UDP, 3)
    user, its_user = run.channel(), run.channel()
    front.channel(user, USER, 2, name=4711)
    back.channel(its_user, USER, 1, name=4711)
    outside = run.channel()
    front._put("chan", outside, 2, 5555, 99, 443, CONNECTED)
    unasked = run.channel()
    back._put("chan", unasked, 3, 53, 98, 6666, ACCEPTED)
    for k in range(8):
        client.work(400 * US + k * 30 * US, *at(MAIN))
        when = ask.send(10 + k)
        serve.receive(10 + k, when, 80 * US)
        front.stack = at((SERVE, k), (MAIN, 2))
        front.work(300 * US, *at(SERVE, MAIN))
        on = onward.send(70)
        behind.receive(70, on, 90 * US)
        back.stack = at((LOOKUP, 1))
        back.work(600 * US + k % 3 * 200 * US, *at(LOOKUP, MAIN))
        answer = behind.send(200)
        front.stack = at((SERVE, 10), (MAIN, 2))
        if k == 5:
            front.spin(answer + 90 * US, 7)
        onward.receive(200, answer, 90 * US)
        if k == 3:  # a reply from an untraced peer
            front.send(outside, 5)
            front.receive(outside, 50, front.now + 3 * MS)
        front.send(user, 16)
        done = serve.send(300)
        ask.receive(300, done, 80 * US)
        client.datagram(udp, 900 + k % 7, 7000, (3, 53))
        client.send(udp, 64)
        if k != 5:
            arrived = max(back.now, client.now + 100 * US)
            begun, back.now = back.now, arrived
            back.datagram(its_udp, 900 + k % 7, 53, (1, 7000))
            back._put_io(RECV, its_udp, 0, begun, arrived, back.cpu, back.cpu, 64)
        back.receive(its_user, 16, front.now)
        if k == 6:
            back.receive(unasked, 20, back.now + 2 * MS)
            back.send(unasked, 20)
            back._put_io(RECVCALL, unasked, 0, back.now, back.now + 1000,
                         back.cpu, back.cpu + 1000, -1, err=11)
            back.waited -= 1000
            back.now += 1000
            back.cpu += 1000
    for t in (client, front, back):
        t.work(200 * US, *at(IDLE))
        t.end()
    return run


def marks(program):
    """Requests that the program marks, tasks, and procedures entered and left."""
    run = Frozen(cores=2, command="marks", number=6)
    main = run.root("marks")
    code(main, program)
    other = main.thread("other")
    lock = Lock(0x1000)
    where = [address_of(k) - 4 for k in range(len(NAMES))]
    main.enter(where[MAIN])
    for k in range(14):
        t = main if k % 2 else other
        t.mark(f"begin order {k}")
        t.enter(where[SERVE])
        t.work(1 * MS + k * 50 * US)
        t.locked(lock, 700 * US)
        t.enter(where[LOOKUP])
        t.work(400 * US)
        t.leave(where[LOOKUP])
        t.leave(where[SERVE])
        if k == 9:
            t.sleep(6 * MS)
        t.mark("end order")
        t.mark("begin bill")
        t.work(100 * US + k * US)
        t.mark("end bill")
        t.count(where[SUM], 10 * k)
    for ns in (3 * MS, 5 * MS, 2 * MS):
        task = main.task("job")
        task.work(ns)
        task.end()
        main.mark("step")
        main.work(500 * US)
    other.mark("begin order late")
    other.end()
    main.leave(where[MAIN])
    join_all(main, [other])
    return run


def phases(program):
    """Two processes: they compute, talk, sleep, and one of them computes."""
    run = Frozen(cores=2, command="phases", number=7)
    left, right = run.root("left"), run.root("right", machine=1)
    code(left, program)
    code(right, program)
    there, here = left.connect(right)
    for _ in range(40):
        left.work(2 * MS, *at(SUM, MAIN))
    left.mark("talk")
    for k in range(150):
        sent = there.send(64)
        here.receive(64, sent, 20 * US)
        right.work(100 * US)
        if k % 10 == 0:
            right.work(1 * US, *at(PARSE, MAIN))
        sent = here.send(32)
        there.receive(32, sent, 20 * US)
        left.work(60 * US)
    left.mark("rest")
    left.stack = at((IDLE, 3))
    left.sleep(60 * MS)
    for _ in range(30):
        right.work(2 * MS, *at(ENCODE, MAIN))
    sent = here.send(8)
    there.receive(8, sent, 20 * US)
    left.work(1 * MS)
    left.end()
    right.end()
    return run


def farm(program):
    """A dispatcher on one machine and workers on the others, that take results as
    they come; and threads that take pieces under a lock."""
    run = Frozen(cores=2, command="farm", number=8)
    boss = run.root("boss")
    code(boss, program)
    workers = [run.root(f"worker{k}", machine=1 + k % 2) for k in range(3)]
    for w in workers:
        code(w, program)
    ends = [boss.connect(w) for w in workers]
    draw, under_way = Draw(8), []
    todo = [(2 + draw(9)) * 500 * US for _ in range(18)]

    def give(k):
        boss.work(40 * US)
        sent = ends[k][0].send(1000)
        workers[k].stack = at((SERVE, 1))
        ends[k][1].receive(1000, sent, 50 * US)
        workers[k].work(todo.pop(0), *at(SUM, SERVE, MAIN))
        under_way.append((ends[k][1].send(100) + 50 * US, k))

    for k in range(len(workers)):
        give(k)
    while under_way:
        arrived, k = min(under_way)
        under_way.remove((arrived, k))
        boss.stack = at((MAIN, 6))
        boss.block(EPOLL, max(0, arrived - boss.now), ready=ends[k][0].id)
        ends[k][0].receive(100, arrived)
        boss.work(60 * US, *at(PARSE, MAIN))
        if todo:
            give(k)
    lock = Lock(0x1000)
    crew = [boss.thread(f"crew{k}") for k in range(3)]
    for k in range(12):
        t = min(crew, key=lambda t: t.now)
        t.stack = at((LOOKUP, 2), (MAIN, 8))
        t.locked(lock, 100 * US)
        t.work((3 + draw(8)) * 300 * US, *at(ENCODE, MAIN))
    for t in crew:
        t.end()
    join_all(boss, crew)
    for w in workers:
        w.end()
    return run


def twins(program):
    """Pids that are equal: on two machines, and in two namespaces of one."""
    run = Frozen(cores=2, command="twins", number=9)
    first = run.root("twin")
    numbers = first.pid, first.tid
    second, third = run.root("twin"), run.root("twin", machine=1)
    for k, t in enumerate((second, third)):
        t.pid, t.tid = numbers
        t.pidns = 4026532001 if k == 0 else 0
    for t in (first, second, third):
        code(t, program)
    children = [first.fork("child")]
    run.forks -= 1
    children.append(second.fork("child"))
    there, here = first.connect(third)
    for k in range(5):
        sent = there.send(10)
        here.receive(10, sent, 40 * US)
        third.work(500 * US, *at(SERVE, MAIN))
        sent = here.send(10)
        there.receive(10, sent, 40 * US)
    for k, t in enumerate(children):
        t.work((k + 2) * MS, *at(SUM, MAIN))
        t.end()
    first.join(children[0])
    second._put("join", 1, second.now, children[1].over, second.cpu,
                children[1].pid, children[1].seq)
    second.now = children[1].over
    end = max(t.now for t in (first, second, third)) + 1 * MS
    for t in (first, second, third):
        t.until(end)
        t.end()  # at one ns on two machines
    return run


def kinds(program):
    """Records that other runs do not have: short forms, marks with places, several
    segments, a program that could not be executed, children that were spawned, by
    popen and by system, signals to threads and signals waited for, eventfds, a lock
    whose owner died, ends that are not exits."""
    run = Frozen(cores=2, command="kinds", tags=("a=1", "b=2 3"), number=13)
    run.on_full, run.cpu_mode = 1, 1
    main = run.root("kinds")
    main.name("kinds --all 'of them'")
    code(main, program)
    where = [address_of(k) - 4 for k in range(len(NAMES))]
    other = main.thread("other")
    other.name("named thread")
    left, right = main.connect(other)
    main.enter(where[MAIN])
    main.placed_mark("begin turn", 0)
    sent = left.send(100)
    right.receive(100, sent, 10 * US)
    for k in range(700):
        if k % 100 == 99:  # each segment has a long one of its own
            sent = left.send(100)
            right.receive(100, sent, 10 * US)
        main.enter_short(where[ENCODE])
        main.short(SEND_SHORT, left.id, 10 + k % 3, 800)
        main.leave_short(where[ENCODE])
        other.until(max(other.now, main.now) + 200)
        other.short(RECV_SHORT, right.id, 10 + k % 3, 300)
        if k % 100 == 50:
            main.placed_mark("begin turn", 0)
        if k % 100 == 53:
            main.repeat_mark(0)
    main.leave(where[MAIN])
    main.count(where[SUM], 12)
    main.failed("/bin/nosuch", 2)
    main.kill(12, other, how=3)
    other.until(main.now + 30 * US)
    other.signal(12, main.pid)
    begun, main.now = main.now, main.now + 2 * MS
    main._put_io(3, 0, 20, begun, main.now, main.cpu, main.cpu, 15)
    main.signal(15, 0, how=17)
    other.until(main.now)
    other.let_go(EVENTFD, 0x9000)
    main.wait_for(EVENTFD, 0x9000, other.now + 100 * US)
    other.work(300 * US)
    other.let_go(MUTEX, 0xa000)
    main.wait_for(MUTEX, 0xa000, other.now, value=other.tid, err=130)
    other.lost(6, 40)
    other.lost_here = (1, 0, 0, 2, 0, 0, 40)
    other.end()
    children = []
    for how in (2, 3, 4, 5):  # vfork, spawn, popen, system
        main.work(100 * US)
        child = main.fork(f"by{how}")
        if how > 3:  # its pid is not known to the parent
            main.lines.pop()
            main._put_fork(how, main.now, main.cpu, 0, child.seq)
        else:
            main.lines.pop()
            main._put_fork(how, main.now, main.cpu, child.pid, child.seq)
        child.work((how + 1) * 300 * US)
        child.status = how
        child.end()
        children.append(child)
    for child, ended in zip(children, (2, 3, 0, 0)):  # killed, dumped
        if ended:
            begun, main.now = main.now, max(main.now, child.over) + 15 * US
            main._put_io(3, 0, 19, begun, main.now, main.cpu, main.cpu, 0)
            main.signal(17, child.pid, code=ended)
        main.join(child)
    main.cpu_of(other)
    main.work(1 * MS)
    main.end()
    return run


def random_one(program):
    """Random threads of one machine."""
    return Program(1, 1, 6, 10, program).make(160)


def random_three(program):
    """Random threads of three machines."""
    return Program(33, 3, 3, 11, program).make(220)


def repeated(slow, number):
    """One of the runs that `diff` compares."""
    def make(program):
        draw = Draw(100 * number + slow)
        run = Frozen(cores=2, command="repeated", number=20 + number + 10 * slow)
        main = run.root("repeated")
        code(main, program)
        child = main.thread("child")
        lock = Lock(0x1000)
        for t in (main, child):
            t.stack = at((MAIN, 4))
            t.locked(lock, (900 + draw(100)) * US)
            for _ in range(6):
                t.work((900 + draw(200) + 300 * slow) * US, *at(SUM, MAIN))
                t.work((400 + draw(200)) * US, *at(PARSE, MAIN))
            t.read((700 + draw(300)) * US)
        child.end()
        join_all(main, [child])
        return run
    return make


RUNS = {f.__name__.replace("_", "-"): f for f in
        (bare, locks, tree, shop, chain, marks, phases, farm, twins, kinds,
         random_one, random_three)}
RUNS["shop-slow"] = lambda program: shop(program, 12, 400)
RUNS.update({f"{'after' if slow else 'before'}{k}": repeated(slow, k)
             for slow in range(2) for k in range(1, 6)})
