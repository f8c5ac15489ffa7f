"""Squares of 0..59 by three forked workers, each over two pipes, and by two
threads over a socket pair; status 7. Shape of all programs here."""
import os
import socket
import sys
import threading


def worker(source, sink):
    with os.fdopen(source) as lines, os.fdopen(sink, "w") as out:
        for line in lines:
            print(int(line) ** 2, file=out, flush=True)


def by_processes():
    total, ends = 0, []
    for _ in range(3):
        to_child, from_child = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            for _, out, back in ends:
                out.close()
                back.close()
            os.close(to_child[1])
            os.close(from_child[0])
            worker(to_child[0], from_child[1])
            os._exit(0)
        os.close(to_child[0])
        os.close(from_child[1])
        ends.append((pid, os.fdopen(to_child[1], "w"),
                     os.fdopen(from_child[0])))
    for i in range(60):
        _, out, back = ends[i % 3]
        print(i, file=out, flush=True)
        total += int(back.readline())
    for pid, out, back in ends:
        out.close()
        back.close()
        os.waitpid(pid, 0)
    return total


def by_threads():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        def answer():
            for _ in range(60):
                n = theirs.recv(4)
                theirs.send((int(n) ** 2).to_bytes(4, "big"))
        thread = threading.Thread(target=answer)
        thread.start()
        total = 0
        for i in range(60):
            ours.send(b"%4d" % i)
            total += int.from_bytes(ours.recv(4), "big")
        thread.join()
    return total


print("processes", by_processes())
print("threads", by_threads())
sys.exit(7)
