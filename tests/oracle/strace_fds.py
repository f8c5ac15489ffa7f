"""Descriptor tables as a log of strace shows them: which end of which channel a
number means in a thread, and when an end is closed for good."""

import re

from strace_types import Object

FD = re.compile(r"(-?\d+)(?:<((?:[A-Z][A-Za-z0-9-]*|pipe|socket):"
                r"\[.*?\]|/[^<>]*)>(?=[,)\]\s}]|$))?")
_SOCK = re.compile(r"^([A-Za-z0-9-]+):\[(.*)\]$", re.S)


def _address(text):
    """"[::ffff:10.0.0.1]:80" and "10.0.0.1:80" are one endpoint."""
    if text.startswith("[::ffff:"):
        host, port = text[8:].rsplit("]:", 1)
        return host + ":" + port
    return text


class Descriptors:
    """The tables of all processes. Whoever mixes this in has `model`, `line`
    (the current one of the log)."""

    def __init__(self):
        self.tables = {}     # tid -> table, shared by threads: {fd: [Object,
        self.objects = {}    # key+side -> newest Object           cloexec]}
        self.generation = {} # (local, remote) -> number of connections
        self.fifos = set()   # paths that mknod made

    def lookup(self, tid, fd, text):
        """The Object behind a descriptor, or None where it is no channel.
        `text` is strace's decoration; the table knows what was bound
        earlier (a closed socket's decoration loses its endpoints)."""
        table = self.tables[tid]
        entry = table.get(fd)
        if text is None or (text.startswith("/") and text not in self.fifos):
            if entry is not None:  # something else took the number
                self.drop(tid, fd, None)
            return None
        named = self.identify(text)
        if entry is not None:
            obj = entry[0]
            if named is None:
                return obj
            self.bind(obj, named)
            if obj.key is None or named[1] is None or self.same(obj, named):
                return obj
            self.model.notes.append("line %d: fd %d of %d changed: %s, was %s"
                                    % (self.line + 1, fd, tid, text, obj.key))
            self.drop(tid, fd, None)
        if named is None:
            return None
        obj = self.find(named)
        self.put(tid, fd, obj, False)
        return obj

    def identify(self, text):
        """Decoration -> (kind, key parts or None) or None."""
        if text in self.fifos:
            return ("pipe", ("pipe", text))
        m = _SOCK.match(text)
        if not m:
            return None
        kind, inner = m.group(1), m.group(2)
        if kind == "pipe":
            return ("pipe", ("pipe", int(inner)))
        if kind in ("TCP", "TCPv6"):
            if "->" in inner:
                local, remote = inner.split("->", 1)
                return ("tcp", (_address(local), _address(remote)))
            return ("tcp", None)
        if kind.startswith("UNIX"):
            m = re.match(r"(\d+)(?:->(\d+))?", inner)
            if not m:
                return None
            return ("unix",
                    (int(m.group(1)), int(m.group(2)) if m.group(2) else None))
        return None

    def same(self, obj, named):
        kind, key = named
        if kind == "tcp":
            return obj.kind == "tcp" and obj.key[1:3] == key
        if kind == "unix":
            return obj.kind in ("unix", "dgram") and obj.key[1] == key[0]
        return obj.kind == kind and obj.key == key

    def bind(self, obj, named):
        """Learns a socket's endpoints the first time strace shows them."""
        kind, key = named
        if key is None or (kind != obj.kind and obj.kind != "dgram"):
            return
        if kind == "tcp" and obj.key is None:
            number = self.generation.get(key, 0)
            self.generation[key] = number + 1
            obj.key = ("tcp",) + key + (number,)
            obj.peer = ("tcp", key[1], key[0], number)
            self.objects[("tcp",) + key] = obj
            if obj.connect is not None:
                obj.connect.key = obj.key
        elif kind == "unix":
            if obj.key is None:
                obj.key = (kind, key[0])
                self.objects[obj.key] = obj
                if obj.connect is not None:
                    obj.connect.key = obj.key
            if key[1]:  # 0: not accepted yet
                obj.peer = (kind, key[1])
                other = self.objects.get(obj.peer)
                if other is not None:
                    other.peer = obj.key

    def find(self, named, side=None):
        """An object met without having been made here: inherited from before
        the log, or received through a socket."""
        kind, key = named
        if kind == "pipe":
            slot = key + (side,)
            if side is None:  # whichever side is still to be seen
                for guess in ("r", "w"):
                    if key + (guess,) in self.objects:
                        slot = key + (guess,)
            if slot not in self.objects:
                self.objects[slot] = Object("pipe", side, key)
            return self.objects[slot]
        if key is not None:
            slot = ("tcp",) + key if kind == "tcp" else (kind, key[0])
            if slot in self.objects:
                return self.objects[slot]
        obj = Object(kind)
        self.bind(obj, named)
        return obj

    def put(self, tid, fd, obj, cloexec):
        self.drop(tid, fd, None)
        self.tables[tid][fd] = [obj, cloexec]
        if obj.refs == 0:  # a FIFO opened again
            obj.released = obj.gone = None
        obj.refs += 1

    def drop(self, tid, fd, release):
        entry = self.tables[tid].pop(fd, None)
        if entry is not None:
            self.unref(entry[0], release)

    def unref(self, obj, release):
        obj.refs -= 1
        if release is None:
            return
        obj.closers.add(release.pid)
        if obj.refs == 0:
            self.end_sending(obj, release)
            obj.gone = release
            for op in obj.broken:
                op.src = release
            obj.broken = []
        elif obj.last_release is None or release.last > obj.last_release.last:
            obj.last_release = release
        elif release.first < obj.last_release.last:
            obj.last_release.pids.add(release.pid)

    def end_sending(self, obj, release):
        """No more bytes can come from this end: receives of nothing at the
        other end are due to `release`."""
        if obj.released is not None or (obj.kind == "pipe" and
                                        obj.side == "r"):
            return
        before = obj.last_release
        if before is not None and before.last > release.first:
            release.pids |= before.pids  # which of two was last?
        obj.released = release
        release.before = set(obj.closers)
        for op in obj.eofs:
            op.src = release
        obj.eofs = []
