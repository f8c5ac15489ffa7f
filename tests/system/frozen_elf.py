"""A program file with symbols and lines for runs that never ran: its procedures have
the names, places and addresses that are asked for, whatever compiler there is."""
import os
import struct

BASE = 0x10000
STEP = 0x100  # bytes of a procedure; a line each 16


# Procedures of the program that all of them are: in shop.c, line 10, 40, 70 ...
NAMES = ["main", "serve", "parse", "lookup", "encode", "sum", "idle_loop"]
LINES = [10 + 30 * k for k in range(len(NAMES))]
MAIN, SERVE, PARSE, LOOKUP, ENCODE, SUM, IDLE = range(len(NAMES))


def leb(value):
    """A signed number that is not negative, as LEB128."""
    out = b""
    while value > 63:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def address_of(number, line=0):
    """Inside the procedure, `line` lines below its first."""
    return BASE + 0x1000 + number * STEP + 16 * line + 4


def lines(source, first_lines):
    """.debug_line, version 4: each procedure from its first line on."""
    files = b"\0" + source.encode() + b"\0\0\0\0" + b"\0"
    opcodes = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
    header = struct.pack("<BBBbBB", 1, 1, 1, -5, 14, 13) + opcodes + files
    program = b""
    for number, first in enumerate(first_lines):
        program += b"\0\x09\x02" + struct.pack("<Q", BASE + 0x1000 +
                                              number * STEP)
        program += b"\x03" + leb(first - 1) + b"\x01"
        for _ in range(STEP // 16 - 1):
            program += b"\x02\x10\x03\x01\x01"  # 16 bytes on, a line on
        program += b"\x02\x10\0\x01\x01"  # end of the sequence
    body = struct.pack("<HI", 4, len(header)) + header + program
    return struct.pack("<I", len(body)) + body


def information(source, names, first_lines):
    """.debug_abbrev and .debug_info, version 4."""
    abbreviations = (
        b"\x01\x11\x01\x03\x08\x1b\x08\x11\x01\x12\x07\x10\x17\0\0"
        b"\x02\x2e\x00\x03\x08\x3a\x0b\x3b\x0b\x11\x01\x12\x07\0\0\0")
    size = STEP * len(names)
    body = struct.pack("<HIB", 4, 0, 8) + b"\x01" + source.encode() + \
        b"\0/src\0" + struct.pack("<QQI", BASE + 0x1000, size, 0)
    for number, (name, first) in enumerate(zip(names, first_lines)):
        body += b"\x02" + name.encode() + b"\0" + struct.pack(
            "<BBQQ", 1, first, BASE + 0x1000 + number * STEP, STEP)
    body += b"\0"
    return abbreviations, struct.pack("<I", len(body)) + body


def write(path, source, names, first_lines):
    """An ELF file of x86-64 with these procedures, made long ago."""
    strings, symbols = b"\0", bytes(24)
    for number, name in enumerate(names):
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, BASE +
                               0x1000 + number * STEP, STEP)
        strings += name.encode() + b"\0"
    abbreviations, info = information(source, names, first_lines)
    code = b"\xc3" * (STEP * len(names))
    # name, type, flags, address, bytes, link, info, entry
    sections = [("", 0, 0, 0, b"", 0, 0, 0),
                (".text", 1, 6, BASE + 0x1000, code, 0, 0, 0),
                (".symtab", 2, 0, 0, symbols, 3, 1, 24),
                (".strtab", 3, 0, 0, strings, 0, 0, 0),
                (".debug_abbrev", 1, 0, 0, abbreviations, 0, 0, 0),
                (".debug_info", 1, 0, 0, info, 0, 0, 0),
                (".debug_line", 1, 0, 0, lines(source, first_lines), 0, 0, 0)]
    names_at = b"".join(s[0].encode() + b"\0" for s in sections) + \
        b".shstrtab\0"
    sections.append((".shstrtab", 3, 0, 0, names_at, 0, 0, 0))
    data, rows = b"", b""
    begin = 64 + 56
    data = bytes(0x1000 - begin)  # code is at 0x1000 of the file, too
    for name, kind, flags, at, body, link, about, entry in sections:
        offset = begin + len(data)
        rows += struct.pack("<IIQQQQIIQQ", names_at.index(
            name.encode() + b"\0"), kind, flags, at, offset if kind else 0,
            len(body), link, about, 1, entry)
        data += body + bytes(-len(body) % 16)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, BASE + 0x1000, 64, begin + len(data), 0, 64,
        56, 1, 64, len(sections), len(sections) - 1)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, 0x1000 + len(code),
                       0x1000 + len(code), 0x1000)
    with open(path, "wb") as f:
        f.write(head + load + data + rows)
    os.utime(path, (1_600_000_000, 1_600_000_000))


# ---- where the threads of a run are in it

def at(*procedures):
    """Addresses in these, innermost first; a pair is a procedure and a line."""
    return [address_of(*(p if isinstance(p, tuple) else (p,)))
            for p in procedures]


def code(thread, program):
    thread._put("module", thread.now, BASE, 0x100000, program)


def join_all(main, threads):
    for t in threads:
        main.join(t)
    main.end()
