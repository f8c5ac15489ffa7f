"""The agent's own system calls fail, are interrupted and come late: the program does not
notice (issue 26, part 3). The long form: agent_faults.py SECONDS."""
import agent_faults

import conftest
from test_interposer import program


def test_nobody_notices(build, tmp_path):
    """80 runs, a row of draws that is always the same. Would catch: a failed call of
    ours that the program sees as its own, a lock that is kept, a crash."""
    conftest.give_clock(build, tmp_path)
    _, bad = agent_faults.judge(build.top, (tmp_path / "clock").read_bytes(),
                                lambda made: made >= 80, "1")
    assert not bad, bad[:3]


def test_limit_of_files_that_cannot_be_read(build, tmp_path):
    """A program whose files may not grow, beside an agent that may be unable to ask for
    that limit. Would catch: a file of ours that outgrows the limit, which ends the
    program (6 of 60 runs)."""
    conftest.give_clock(build, tmp_path)
    judge = agent_faults.Judge(build.top, (tmp_path / "clock").read_bytes())
    try:
        for seed in range(40):
            assert not judge.differences([program(build, "i_guest"), "limit", "fsize-small"],
                                         ["--on-full=drop"], 300000, seed)
    finally:
        judge.close()
