"""Answers that the master keeps (master/query/answer_cache.h; the cases of one process are in
tests/sim/test_cluster_answers.c)."""
from conftest import wait_until


def test_path_asked_ahead(cluster):
    """The path of a closed run is computed before anybody asks: the question that
    `ipsq path RUN` puts is found answered. Would catch: a question put ahead that is
    not, to the last field, the one that ipsq puts."""
    c = cluster(["m1"])
    c.ipsrun(["sh", "-c", "seq 3000 | sort -n | tail -1"], name="r", check=True)
    c.wait_closed("r")
    wait_until("an answer that is kept",
               lambda: c.json("status")["kept_answers"] >= 1)
    kept = c.ipsq("path", "r", "-v").stdout
    assert "from an answer that was kept" in kept
    fresh = c.ipsq("path", "r", "-v", "--fresh").stdout
    assert "from an answer that was kept" not in fresh

    def body(text):
        return [line for line in text.splitlines() if "answered in" not in line]
    assert body(kept) == body(fresh)
