"""docs/pool-format.md as a reader: every record and header of the pool with all
its fields, by the offsets that the document's tables give. It knows nothing of
agent/pool/format.h; tests/unit/agent/test_format.c holds the document and that together.

    fmt = pool_format.load()
    for seg in fmt.segments(run_directory):
        seg.head["tid"], [r["type"] for r in seg.records]

A record is a dict: "type", "head_flags", "a", "t", its fields, its text or frames
("text", "path", "frames") and, of a call's FORK, JOIN, KILL or CLOSE, "site".
"""
import os
import re

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                    "docs", "pool-format.md")
HEAD = 16
UNPUBLISHED = 0xff
SITED = ("FORK", "JOIN", "KILL", "CLOSE")
RECORD_LOCK = 11  # its ACQUIRE and RELEASE have a length
# Fields that are signed; the document gives sizes only.
SIGNED = {"result", "pid", "tid", "code", "value", "status"}
SIGNED_IN = {"result": ("SEND", "RECV", "RECVCALL", "BLOCK"),
             "pid": ("KILL", "SIGNAL"), "tid": ("KILL", "SIGNAL"),
             "code": ("KILL", "SIGNAL"), "value": ("ACQUIRE", "RELEASE"),
             "status": ("END",)}
# Longer fields that are no number.
TEXTS = {"run", "machine", "boot_id", "command", "comm"}
RAW = {"tags", "build_id"}


class Format:
    def __init__(self, path=DOCS):
        self.types, self.fields, self.ops = {}, {}, {}
        self.structs = {}
        titles, struct = [], None
        for line in open(path):
            if line.startswith("#"):
                title = line.lstrip("# ").strip()
                titles = re.findall(r"([A-Z_]+) (\d+)\b", title)
                if ":" in title:
                    titles = re.findall(r"([A-Z_]+) (\d+)\b", re.sub(
                        r": a = [^;:]*", ";", title + ";"))
                struct = None
                for name, code in titles:
                    self.types.setdefault(int(code), name)
                    self.fields.setdefault(name, [])
            cells = [c.strip() for c in line.strip().strip("|").split("|")]
            named = re.match(r"`struct (\w+)`", line)
            if named:
                struct = named.group(1)
                self.structs[struct] = []
            if not line.startswith("|"):
                continue
            row = re.match(r"`(\w+)`", cells[2]) if len(cells) > 2 else None
            if row and cells[0].isdigit() and struct:
                size = None if cells[1] == "..." else int(cells[1])
                field = (row.group(1), int(cells[0]), size)
                self.structs[struct].append(field)
                for name, _ in titles:
                    if row.group(1) != "h":
                        self.fields[name].append(field)
            elif len(cells) >= 3 and re.fullmatch("[A-Z_]+", cells[0]) and \
                    cells[1].isdigit():
                self.types[int(cells[1])] = cells[0]
            elif len(cells) >= 2 and cells[0].isdigit() and \
                    re.fullmatch("[A-Z_]+", cells[1]):
                self.ops.setdefault(int(cells[0]), cells[1])
        self.fields["UNSEEN"] = self.fields["MARK"] # "as MARK"
        self.fields["EXECFAIL"] = [("cpu", 16, 8)]
        assert self.ops[4] == "SENDFILE" and self.types[41] == "PAGEFAULT"

    def header(self, data):
        return self._struct("ips_segment_header", data, 0)

    def control(self, data):
        out = self._struct("ips_control", data, 0)
        out["clock"] = self._struct("ips_clock", data, 696)
        tags = out["tags"].split(b"\0")
        out["tags"] = [t.decode() for t in tags[:tags.index(b"")]]
        return out

    def _struct(self, name, data, base, record=None):
        return {field: self._value(field, data[base + at:base + at + size],
                                   record)
                for field, at, size in self.structs[name] if size}

    def _value(self, field, raw, record):
        if field in TEXTS:
            return raw.split(b"\0")[0].decode()
        if field in ("local", "remote"):
            return self.address(raw)
        if field in RAW:
            return raw
        if len(raw) > 8 and field != "clock":
            return [int.from_bytes(raw[i:i + 8], "little")
                    for i in range(0, len(raw), 8)]
        return int.from_bytes(raw, "little", signed=field in SIGNED and
                              record in SIGNED_IN[field])

    @staticmethod
    def address(raw):
        family, port = (int.from_bytes(raw[i:i + 2], "little") for i in (0, 2))
        return (family, raw[4:20].hex(), port)

    def record(self, raw, word):
        name = self.types[word & 0xff]
        out = {"type": name, "head_flags": word >> 16,
               "a": int.from_bytes(raw[4:8], "little"),
               "t": int.from_bytes(raw[8:16], "little")}
        end = HEAD
        for field, at, size in self.fields[name]:
            if size is None and field == "frames":
                end = at + 8 * out["a"]
                out[field] = [int.from_bytes(raw[i:i + 8], "little")
                              for i in range(at, end, 8)]
            elif size is None:
                text = raw[at:].split(b"\0")[0]
                end = at + len(text) + 1
                out[field] = text.decode(errors="replace")
            else:
                out[field] = self._value(field, raw[at:at + size], name)
                end = at + size
        if name in SITED and len(raw) == end + 8:
            out["site"] = int.from_bytes(raw[end:end + 8], "little")
            end += 8
        if name in ("ACQUIRE", "RELEASE") and out["a"] == RECORD_LOCK:
            assert len(raw) == end + 8, (out, end)
            out["length"] = int.from_bytes(raw[end:end + 8], "little")
            end += 8
        if name == "EXECFAIL":
            end = len(raw)
        # "Every record ends with padding zeros to a multiple of 8."
        assert not any(raw[end:]), (out, raw[end:])
        assert len(raw) - end < 8 or name in ("EXEC", "EXECFAIL"), (out, end)
        return out

    def segment(self, path):
        with open(path, "rb") as f:
            data = f.read()
        return Segment(self, path, data) if any(data[:8]) else None

    def segments(self, directory):
        """In the order in which their streams began."""
        found = [self.segment(os.path.join(directory, name))
                 for name in sorted(os.listdir(directory))
                 if name.endswith(".seg")]
        return sorted(filter(None, found), key=lambda s: (
            s.head["stream_stamp"], s.head["pid"], s.head["tid"],
            s.head["seq"]))


class Segment:
    """`torn`: reservations that nobody published."""

    def __init__(self, fmt, path, data):
        self.path, self.size = path, len(data)
        self.blocks = os.stat(path).st_blocks * 512
        self.head = fmt.header(data)
        self.clock = fmt._struct("ips_clock", data, 80)
        self.records, self.torn = [], 0
        at = self.head["header_bytes"]
        while at + HEAD <= len(data):
            word = int.from_bytes(data[at:at + 4], "little")
            if word == 0:
                break
            size = (word >> 8 & 0xff) * 8
            assert HEAD <= size <= 1024 and at + size <= len(data), hex(word)
            if word & 0xff == UNPUBLISHED:
                self.torn += 1
            else:
                self.records.append(fmt.record(data[at:at + size], word))
            at += size
        assert not any(data[at:at + 4096]), "something behind the last record"
        self.used = at

    def ns(self, stamp):
        since = stamp - self.clock["counter0"]
        product = abs(since) * self.clock["mult_q32"] >> 32
        return self.clock["raw0_ns"] + (product if since >= 0 else -product)


def load():
    return Format()
