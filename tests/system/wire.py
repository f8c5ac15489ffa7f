"""Messages of proto/ips.proto by hand, so that a test can say what no program
of ours would: fields are (number, value) pairs, a value an int or bytes."""
import socket

# Field numbers of Request's asks; the answers in Reply, where they differ.
SYNC, TABLE, ENDS, PEERS, REDUCE, FINISH, EXPAND, SUBGRAPH = range(20, 28)
RUNS, STATUS, LS, METRICS, PATH, EVENTS, GRAPH, MORE = range(10, 18)
PROCEDURES, PROFILE, SQL = 30, 28, 130
ANSWER = {REDUCE: 340, SUBGRAPH: 24, PROFILE: 27}
U32, U64 = 2**32 - 1, 2**64 - 1


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def message(*fields):
    """Fields in order; a list of ints is a packed one."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            if isinstance(value, list):
                value = b"".join(map(varint, value))
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def read_varint(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return n, at


def fields(data):
    """{number: the last value} of one message."""
    found, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            found[key >> 3], at = read_varint(data, at)
        elif key & 7 == 2:
            size, at = read_varint(data, at)
            found[key >> 3] = data[at:at + size]
            at += size
        else:
            at += {1: 8, 5: 4}[key & 7]
    return found


HELLO, REQUEST, REPLY, REPORT = 1, 2, 3, 4
CLIENT, SLAVE, MASTER = 1, 2, 3


class Peer:
    """One connection that speaks frames; `get` is None at its end."""

    def __init__(self, sock):
        self.sock, self.have = sock, b""
        sock.settimeout(30)

    @classmethod
    def connect(cls, path):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return cls(sock)

    def put(self, kind, body):
        data = message((kind, body))
        self.sock.sendall(len(data).to_bytes(4, "little") + data)

    def hello(self, role, machine=b""):
        self.put(HELLO, message((1, 1), (2, b"test"), (3, role), (4, machine),
                                (5, b"boot"), (6, 2)))

    def get(self):
        while True:
            if len(self.have) >= 4:
                size = int.from_bytes(self.have[:4], "little")
                if len(self.have) >= 4 + size:
                    data = self.have[4:4 + size]
                    self.have = self.have[4 + size:]
                    [(kind, body)] = fields(data).items()
                    return kind, fields(body)
            try:
                piece = self.sock.recv(1 << 20)
            except (ConnectionResetError, OSError):
                return None
            if not piece:
                return None
            self.have += piece

    def ask(self, number, run, which, ask=b""):
        self.put(REQUEST, message((1, number), (2, run), (which, ask)))

    def answer_to(self, number):
        """The last reply to request `number`; others are passed over."""
        while True:
            got = self.get()
            assert got, "the connection was closed"
            kind, reply = got
            if kind == REPLY and reply.get(1) == number and reply.get(2):
                return reply

    def close(self):
        try:  # a thread that waits in recv would keep it open
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()
