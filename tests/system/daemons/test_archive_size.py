"""At most 10 bytes an event in the archive, and all of them there.

Would catch: a record whose fields are no longer foreseen (a new layout that the
packing does not know), an archive of many small blocks that is never packed
again, events that its second packing lost."""
import glob
import os
import sqlite3

import pytest

import programs
import recorder as rec

pytestmark = pytest.mark.skipif(bool(programs.missing()),
                                reason="not here: %s" % programs.missing())

# Long enough (10^4 events and more) for the command lines and channels that
# every process begins with to weigh little.
PROGRAMS = {
    "redis": lambda d: programs.redis(d, 20, 5000),
    "nginx": lambda d: programs.nginx(d, 400, 4),
    "postgres": lambda d: programs.postgres(d, 300, 4),
}


@pytest.fixture(scope="module")
def recorder(build):
    made = rec.Recorder(build)
    yield made
    made.close()


def archived(recorder, run):
    """(events, bytes) as committed, and the file's own size."""
    state = glob.glob("%s/**/slave.db" % recorder.cluster.root, recursive=True)
    assert len(state) == 1
    with sqlite3.connect("file:%s?mode=ro" % state[0], uri=True) as db:
        row = db.execute("SELECT events, archive_bytes FROM run WHERE name=?",
                         (run,)).fetchone()
    file = "%s/runs/%s/archive" % (os.path.dirname(state[0]), run)
    assert os.path.getsize(file) == row[1]
    assert not os.path.exists(file + ".new")
    return row


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_bytes_of_an_event(recorder, name):
    """EVIDENCE-OF: at most 10 bytes an event in the archive."""
    prog = PROGRAMS[name](programs.new_directory())
    try:
        done = recorder.record(prog.argv, name)
    finally:
        prog.clean()
    assert done.status == 0, done.err
    events, size = archived(recorder, done.run)
    assert events >= 10000
    # and what a machine that stalls adds: shorter blocks, more heads of blocks
    assert size <= 10 * events + 8192, "%.2f bytes an event" % (size / events)
    cert = recorder.path(done.run, "central")["certificate"]
    assert cert["events"] == events
    assert cert["unmatched"] == 0, cert
