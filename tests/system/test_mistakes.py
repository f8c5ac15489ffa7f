"""What a user gets who misspells something, or has nothing to ask about: an error
that names what is wrong, and the name that was meant."""
import pytest

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def run(shared):
    shared.ipsrun(["sh", "-c", "seq 100 | sort | tail -1"], name="pipeline",
                  check=True)
    shared.wait_closed("pipeline")
    return shared


def objects(c):
    return [row["object"] for row in c.json("ls", "pipeline")["threads"]]


@pytest.mark.parametrize("words", [
    ("events",), ("ls",), ("metrics",), ("procedures",), ("waits",)])
def test_an_object_that_is_not_there(run, words):
    """Would catch an empty answer for one that is complete."""
    sort = next(o for o in objects(run) if "/sort." in o)
    process = sort.rsplit("/", 1)[0]
    for wrong in ("/m2", "/m1/nosuch", "/m1/sort", f"{process}/0",
                  f"{process}/nosuch"):
        if words == ("waits",) and wrong == "/m1/sort":
            continue  # takes programs
        done = run.ipsq(*words, "pipeline", "--object", wrong)
        assert done.returncode == 1 and not done.stdout, (wrong, done.stdout)
        assert wrong in done.stderr, done.stderr
    for right in ("/", "/m1", "/m*/sort.*", process, sort, f"{process}/sort"):
        if words[0] in ("events", "waits"):
            done = run.ipsq(*words, "pipeline", "--object", right)
            assert done.returncode == 0, (right, done.stderr)
