"""The agent's own system calls fail, are interrupted and come late: the program does not
notice (issue 26, part 3). The long form: agent_faults.py SECONDS."""
import agent_faults

import conftest


def test_nobody_notices(build, tmp_path):
    """80 runs, a row of draws that is always the same. Would catch: a failed call of
    ours that the program sees as its own, a lock that is kept, a crash."""
    conftest.give_clock(build, tmp_path)
    _, bad = agent_faults.judge(build.top, (tmp_path / "clock").read_bytes(),
                                lambda made: made >= 80, "1")
    assert not bad, bad[:3]
