"""Mutations of C text: where a fault can be put, and which ones a seed draws.

A small tokenizer knows comments, strings, character constants and preprocessor lines;
none of these is ever changed. A mutation changes one token, one operand or one
statement inside a function body or an initialiser, and keeps the number of lines.
"""
import collections
import difflib
import random
import re

Token = collections.namedtuple("Token", "kind text at end line")
Mutation = collections.namedtuple("Mutation", "file line kind at end new")

TOKEN = re.compile(r"""
  (?P<directive>^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
| (?P<space>\s|\\\n|//[^\n]*|/\*.*?\*/)
| (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
| (?P<char>[uUL]?'(?:\\.|[^'\\\n])*')
| (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
| (?P<name>[A-Za-z_]\w*)
| (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.X | re.S | re.M)
KNOWN_HERE = re.compile(r"#\s*(?:el)?if\s+(!?)defined\(__(x86_64|aarch64)__\)\s*"
                        r"(?:/\*.*)?$", re.S)

FLIPPED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
BY_ONE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$")
UNITS = {1000: [10**6, 1], 10**6: [10**9, 10**3], 10**9: [10**12, 10**6],
         10**12: [10**9], 1024: [2**20, 1]}
FLOAT_UNITS = {f"1e{n}": [f"1e{n + 3}", f"1e{n - 3}"]
               for n in (-9, -6, -3, 3, 6, 9, 12)}
FLOAT_UNITS.update({"1000.0": ["1000000.0", "1.0"], "1024.0": ["1048576.0", "1.0"]})
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
CONTROL = {"if", "while", "for", "switch"}
KEYWORDS = CONTROL | {"return", "case", "else", "do", "goto", "break", "continue",
                      "default", "sizeof"}
TYPE = re.compile(r"(\w+_t|int|long|unsigned|char|double|float|short|bool|void|const|"
                  r"struct|enum|signed|volatile|ips_u128)$")
# Their arguments are never changed: no behaviour, or texts for a log.
FROZEN = re.compile(r"(_?[Ss]tatic_assert|assert|offsetof|sizeof|_Alignas|_Alignof|"
                    r"__attribute__|asm|__asm__|typeof|__typeof__|ips_log\w*)$")
# Without these memory leaks, which only the sanitizers' builds see; or nothing changes.
NO_UPDATE = re.compile(r"(va_end|va_start|free|\w*_free(_\w+)?)$")
LOOSER = {"?", ":", ",", ";"} | ASSIGN
LOGIC = LOOSER | {"||"}
SUM = LOGIC | {"&&", "|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "<<", ">>",
               "+", "-"}


def tokens(text):
    """The tokens that x86-64 compiles, without comments and preprocessor lines."""
    found, line, live = [], 1, []  # of each open #if: [live now, a branch was taken]
    for m in TOKEN.finditer(text):
        if m.lastgroup == "directive":
            follow_condition(live, m.group().strip())
        elif m.lastgroup != "space" and all(now for now, _ in live):
            found.append(Token(m.lastgroup, m.group(), m.start(), m.end(), line))
        line += m.group().count("\n")
    return found


def follow_condition(live, directive):
    """Conditions on the architecture and `#if 0` are known; others count as true."""
    word = re.match(r"#\s*(\w*)", directive).group(1)
    m = KNOWN_HERE.match(directive)
    value = (m[2] == "x86_64") != bool(m[1]) if m else None
    if re.match(r"#\s*if\s+0\b", directive):
        value = False
    if word in ("if", "ifdef", "ifndef"):
        live.append([value is not False, value is True])
    elif word in ("elif", "else") and live:
        live[-1][0] = not live[-1][1] and value is not False
        live[-1][1] |= value is True
    elif word == "endif" and live:
        live.pop()


class Code:
    """The mutations that are possible in one file."""

    def __init__(self, file, text):
        self.file, self.text, self.t = file, text, tokens(text)
        self.pair, self.body, self.frozen = {}, set(), set()
        self.found = []
        self.match_brackets()
        self.mark_bodies()
        for i in sorted(self.body - self.frozen):
            self.at_token(i)
        self.statements()

    # --- structure ---------------------------------------------------------

    def match_brackets(self):
        open_at = []
        for i, t in enumerate(self.t):
            if t.kind == "op" and t.text in "([{":
                open_at.append(i)
            elif t.kind == "op" and t.text in ")]}" and open_at:
                j = open_at.pop()
                self.pair[i], self.pair[j] = j, i

    def mark_bodies(self):
        """Function bodies and initialisers at file level; not types."""
        self.functions = []
        i = 0
        while i < len(self.t):
            if self.s(i) == "{" and i in self.pair:
                j = i - 1
                while (self.s(j) == ")" and j in self.pair and
                       self.s(self.pair[j] - 1) == "__attribute__"):
                    j = self.pair[j] - 2
                if self.s(j) == ")":
                    self.functions.append((i, self.pair[i]))
                if self.s(j) in (")", "="):
                    self.body |= set(range(i, self.pair[i]))
                i = self.pair[i]
            i += 1
        for i in self.body:
            if self.t[i].kind == "name" and FROZEN.match(self.t[i].text):
                j = i + 1
                while self.s(j) in ("volatile", "goto", "__volatile__"):
                    j += 1
                if self.s(j) == "(" and j in self.pair:
                    self.frozen |= set(range(i, self.pair[j] + 1))

    def s(self, i):
        return self.t[i].text if 0 <= i < len(self.t) else ""

    def is_value(self, i):
        """Whether an operand ends at token i, so that what follows is binary."""
        t = self.t[i]
        if t.text == ")" and i in self.pair:
            inner = self.t[self.pair[i] + 1:i]
            names = [x for x in inner if x.kind == "name"]
            is_cast = (names and TYPE.match(names[0].text) and
                       all(x.kind == "name" or x.text == "*" for x in inner))
            return not is_cast and self.s(self.pair[i] - 1) not in CONTROL
        return (t.kind == "number" or t.text in ("]", "++", "--") or
                t.kind == "name" and t.text not in KEYWORDS)

    def left(self, i, stops):
        """The first token of the operand that ends before token i."""
        j = i - 1
        while j >= 0:
            if self.s(j) in (")", "]", "}") and j in self.pair:
                j = self.pair[j]
            elif self.s(j) in stops or self.s(j) in "([{}" or \
                    self.s(j) in ("return", "case", "else"):
                break
            j -= 1
        return j + 1

    def right(self, i, stops):
        """One behind the last token of the operand that begins behind token i."""
        j = i + 1
        while self.s(j) in ("*", "&", "-", "+", "!", "~") or \
                self.s(j) == "(" and j in self.pair and not self.is_value(self.pair[j]):
            j = self.pair[j] + 1 if self.s(j) == "(" else j + 1
        while j < len(self.t):
            if self.s(j) in "([{" and j in self.pair:
                j = self.pair[j]
            elif self.s(j) in stops or self.s(j) in ")]}":
                break
            j += 1
        return j

    # --- places ------------------------------------------------------------

    def source(self, i, j):
        """The text of tokens i to j - 1."""
        return self.text[self.t[i].at:self.t[j - 1].end]

    def add(self, kind, i, at, end, new):
        """`new` for the text from `at` to `end`, with as many lines as before."""
        new += "\n" * (self.text.count("\n", at, end) - new.count("\n"))
        if new != self.text[at:end]:
            self.found.append(Mutation(self.file, self.t[i].line, kind, at, end, new))

    def replace(self, kind, i, new):
        self.add(kind, i, self.t[i].at, self.t[i].end, new)

    def at_token(self, i):
        t = self.t[i]
        if t.kind == "number":
            self.at_number(i)
        elif t.kind == "op":
            if t.text in FLIPPED:
                self.replace("flipped comparison", i, FLIPPED[t.text])
            if t.text in BY_ONE:
                self.replace("off by one", i, BY_ONE[t.text])
            elif t.text in ("&&", "||"):
                self.at_logic(i)
            elif t.text == "!":
                self.replace("dropped condition", i, "")
            elif t.text in ("-", "/", "%") and self.is_value(i - 1):
                self.at_difference(i)
            elif t.text == "[" and i in self.pair:
                self.at_index(i)
        elif t.kind == "name" and t.text == "if":
            self.at_if(i)
        elif t.kind == "name" and t.text not in KEYWORDS and self.s(i + 1) == "(":
            self.at_call(i)

    def at_number(self, i):
        text = self.t[i].text
        for new in FLOAT_UNITS.get(text, []):
            self.replace("wrong unit", i, new)
        m = INTEGER.match(text)
        # {0} as an initialiser: what else begins as zero does not say so
        if not m or self.s(i - 1) == "{" and self.s(i + 1) == "}" or \
                self.s(i - 1) == "[" and self.is_declared(i - 1):
            return
        octal = len(m[1]) > 1 and m[1].isdigit() and m[1][0] == "0"
        base = 16 if m[1][:2] in ("0x", "0X") else 8 if octal else 10
        value = int(m[1], base)
        form = {16: "{:#x}", 8: "0{:o}", 10: "{}"}[base]
        for unit in UNITS.get(value, []):
            self.replace("wrong unit", i, form.format(unit) + m[2])
        if value not in UNITS:
            for other in self.near(i, value):
                self.replace("off by one", i, (form if other >= 0 else "{}").format(other)
                             + m[2])

    def near(self, i, value):
        """One more, one less. Where a sign or a truth is meant, 2 for 1 changes nothing,
        and an error is less than 0. An allocation that is longer changes nothing."""
        before, after = self.s(i - 1), self.s(i + 1)
        if before == "+" and self.is_allocated(i):
            return [value - 1] * (value > 0)
        if before == "return" and after == ";":
            return [-1] if value == 0 else [value - 1]
        if value == 1 and (before == "-" and not self.is_value(i - 2) or
                           before == "?" and after == ":"):
            return [0]
        return [value + 1] + [value - 1] * (value > 0)

    def is_allocated(self, i):
        """Whether token i is in the size that an allocation is given."""
        while self.s(i) not in (";", "{", "}", ""):
            if self.s(i) == ")":
                i = self.pair[i]
            elif self.s(i) == "(" and "alloc" in self.s(i - 1):
                return True
            i -= 1
        return False

    def is_declared(self, i):
        """Whether the [ at token i gives an array's size: `char path[64]`."""
        j = i - 1
        while self.s(j) == "]" and j in self.pair:
            j = self.pair[j] - 1
        first = self.left(j, {";"})
        return (self.t[j].kind == "name" and
                (self.t[j - 1].kind == "name" and self.s(j - 1) not in KEYWORDS or
                 self.s(j - 1) == "*" and bool(TYPE.match(self.s(j - 2))) or
                 self.s(j - 1) == "," and bool(TYPE.match(self.s(first)))))

    def at_index(self, i):
        end = self.pair[i]
        if self.is_value(i - 1) and not self.is_declared(i) and \
                not (end == i + 2 and self.t[i + 1].kind == "number"):
            for more in (" + 1", " - 1"):
                self.add("off by one", i, self.t[end].at, self.t[end].at, more)

    def at_logic(self, i):
        stops = LOOSER | ({"&&", "||"} if self.s(i) == "&&" else {"||"})
        first, last = self.left(i, stops), self.right(i, stops)
        if first < i and i + 1 < last:
            self.add("dropped condition", i, self.t[first].at, self.t[i + 1].at, "")
            self.add("dropped condition", i, self.t[i - 1].end, self.t[last - 1].end, "")

    def at_difference(self, i):
        stops = SUM if self.s(i) == "-" else SUM | {"*", "/", "%"}
        first, last = self.left(i, stops), self.right(i, stops)
        if not (first < i and i + 1 < last) or self.s(first - 1) == "-":
            return
        a, b = self.source(first, i), self.source(i + 1, last)
        middle = self.text[self.t[i - 1].end:self.t[i + 1].at]
        self.add("swapped operand", i, self.t[first].at, self.t[last - 1].end,
                 b + middle + a)

    def at_call(self, i):
        """Two neighbouring arguments; not the text that printf prints by, nor what calloc
        multiplies."""
        if i + 1 not in self.pair or self.s(i) == "calloc" or \
                self.t[i - 1].kind == "name" and self.s(i - 1) not in KEYWORDS:
            return
        args, begin, j = [], i + 2, i + 2
        while j <= self.pair[i + 1]:
            if self.s(j) in "([{" and j in self.pair:
                j = self.pair[j]
            elif self.s(j) in (",", ")"):
                args.append((begin, j))
                begin = j + 1
            j += 1
        for (a, b), (c, d) in zip(args, args[1:]):
            if a < b and c < d and not any(t.kind == "string" for t in self.t[a:d]):
                middle = self.text[self.t[b - 1].end:self.t[c].at]
                self.add("swapped operand", i, self.t[a].at, self.t[d - 1].end,
                         self.source(c, d) + middle + self.source(a, b))

    def at_if(self, i):
        """An error that is returned: `if (rc < 0) return rc;` never does so."""
        if self.s(i + 1) != "(" or i + 1 not in self.pair:
            return
        end = self.pair[i + 1]
        body = end + 1
        if self.s(body) == "{" and body in self.pair:
            # the last statement of the block
            last = self.pair[body] - 2
            while last > body and self.s(last) not in (";", "{", "}"):
                last -= 1
            body = last + 1
        if self.s(body) not in ("return", "goto"):
            return
        cond = [t.text for t in self.t[i + 2:end]]
        fails = (cond[-2:] in (["<", "0"], ["!=", "0"], ["==", "NULL"],
                               ["==", "MAP_FAILED"]) or cond[-3:] == ["==", "-", "1"] or
                 cond in (["rc"], ["err"]))
        # `if (!x) return` is an error's where that returns one
        returned = [t.text for t in self.t[body:body + 3]]
        fails |= cond[0] == "!" and (returned[0] == "goto" or returned[1] in (
            "-", "NULL", "false", "rc", "ips_err_set", "ips_err_errno"))
        if fails:
            self.add("ignored error", i, self.t[i + 1].at, self.t[end].end,
                     "((" + self.text[self.t[i + 1].end:self.t[end].at] + ") && 0)")

    # --- statements ----------------------------------------------------------

    def statements(self):
        for begin, end in self.functions:
            i = begin
            while i < end:
                if self.s(i) in ("{", "}", ";", "else", "do") or \
                        self.s(i) == ":" and i > begin:
                    i += 1
                elif self.s(i) in CONTROL and i + 1 in self.pair:
                    i = self.pair[i + 1] + 1
                elif self.s(i) in ("case", "default") or self.s(i + 1) == ":":
                    while i < end and self.s(i) != ":":
                        i += 1
                else:
                    i = self.statement(i, end)

    def statement(self, first, end):
        """Notes what can be removed of one statement; returns where the next begins."""
        i = first
        while i < end and self.s(i) != ";":
            if self.s(i) == "{" and self.s(i - 1) == ")" and not self.is_cast(i - 1):
                return i  # for_each(x) { ... }
            if self.s(i) in "([{" and i in self.pair:
                i = self.pair[i]
            i += 1
        if self.is_update(first, i):
            self.add("removed update", first, self.t[first].at, self.t[i].end, ";")
        return i + 1

    def is_cast(self, i):
        return not self.is_value(i)

    def is_update(self, first, end):
        t = self.t[first:end]
        if not t or self.s(first) in KEYWORDS or first in self.frozen:
            return False
        i, depth0 = first, []
        while i < end:
            depth0.append(i)
            if self.s(i) in "([{" and i in self.pair:
                i = self.pair[i]
            i += 1
        changes = [i for i in depth0 if self.s(i) in ASSIGN | {"++", "--"}]
        head = [i for i in depth0 if not changes or i < changes[0]]
        for i in head[1:]:  # a declaration: `struct x *y`
            if self.t[i].kind == "name" and (
                    self.t[i - 1].kind == "name" or
                    self.s(i - 1) == "*" and self.s(i - 2) != "(" and i - 1 > first):
                return False
        if changes:
            return True
        calls = [i - 1 for i in depth0 if self.s(i) == "(" and i > first]
        return (self.s(end - 1) == ")" and bool(calls) and
                not NO_UPDATE.match(self.s(calls[-1])))


def apply(mutation, text):
    return text[:mutation.at] + mutation.new + text[mutation.end:]


def changed_lines(mutation, text):
    """The first line that differs, before and after, without its indentation."""
    for old, new in zip(text.split("\n"), apply(mutation, text).split("\n")):
        if old != new:
            return old.strip(), new.strip()
    return "", ""


def diff(mutation, text):
    made = difflib.unified_diff(text.splitlines(True),
                                apply(mutation, text).splitlines(True),
                                f"a/{mutation.file}", f"b/{mutation.file}")
    return f"# {mutation.kind}\n" + "".join(made)


def possible(sources):
    """{(file, line): [mutation...]} of {file: text}."""
    lines = collections.defaultdict(list)
    for file in sorted(sources):
        for mutation in Code(file, sources[file]).found:
            lines[file, mutation.line].append(mutation)
    return lines


def draw(lines, seed):
    """Mutations without end or until all are drawn, each once: a line among those that
    have any, a kind among the line's, a place among the kind's."""
    chance, drawn = random.Random(f"mutate {seed}"), set()
    places = sorted(lines)
    total = sum(len(found) for found in lines.values())
    while len(drawn) < total:
        found = lines[chance.choice(places)]
        kind = chance.choice(sorted({m.kind for m in found}))
        mutation = chance.choice([m for m in found if m.kind == kind])
        if mutation not in drawn:
            drawn.add(mutation)
            yield mutation


def read_equivalents(text):
    """{(file, old line, new line): reason}: a file's name, `- old`, `+ new` and the reason,
    indented or not; an empty line ends it; # begins a comment."""
    known = {}
    for block in re.split(r"\n\s*\n", re.sub(r"^#.*\n?", "", text, flags=re.M)):
        rows = [row.strip() for row in block.strip().split("\n")]
        if len(rows) >= 4 and rows[1][:2] == "- " and rows[2][:1] == "+":
            known[rows[0], rows[1][2:].strip(), rows[2][1:].strip()] = " ".join(rows[3:])
    return known
