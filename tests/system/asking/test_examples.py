"""The examples in the help of each command are run as they stand there, with names of
this test's run in place of those that they suppose.

Would catch: an example with an option, a column or a word that does not exist (any more)."""
import re
import shlex

COMMAND = re.compile(r"(?m)^  (ipsq .*)$")
# What changes the files of the reader, or needs a master with keys or two machines.
NOT_RUN = {"calibrate", "completion"}
NOT_HERE = ("--master",)


def examples(there):
    listed = there.ipsq("--help").stdout
    for command in re.findall(r"(?m)^  ([a-z]+)  ", listed[:listed.index("\noptions of all")]):
        text = there.ipsq(command, "--help").stdout
        found = COMMAND.findall(text[text.index("\nexamples:"):])
        assert found, command
        yield from (line for line in found if command not in NOT_RUN)


def test_examples_answer(cluster):
    there = cluster()
    for name in ("run4", "old1", "old2", "old3", "new1", "new2", "new3"):
        there.ipsrun(["/bin/bash", "-c", "seq 5000 | sort -n | tail -n 1"], name=name, check=True)
    there.ipsrun([there.build.program("phased"), 3000, 3000, 50], name="run3",
                 options=("--rate", "1"), check=True)
    for name in there.runs():
        there.wait_closed(name)
    process = there.json("ls", "run3")["processes"][0]["object"]
    procedure = there.json("procedures", "run3")["procedures"][0]["procedure"]
    ran = 0
    for line in examples(there):
        words = shlex.split(line.split(" > ")[0].split(" | ")[0].split(" && ")[0])[1:]
        if any(w in words for w in NOT_HERE):
            continue
        typed = "runs\n" if "shell" in words else ""
        words = words[:words.index("<")] if "<" in words else words
        words = [process if w == "/m1/server.123" else procedure if w == "parse" else w
                 for w in words]
        done = there.ipsq(*words, typed=typed)
        # This program sets other marks, and makes no tasks.
        if not re.search(r"no thread set ips_mark|no task of the API", done.stderr):
            assert done.returncode in (0, 3) and done.stdout, (line, words, done.stderr)
        ran += 1
    assert ran > 35
