"""The stressors of stress-ng, bare and recorded."""
import re
import shutil

from guest_compare import Run, compare, differing
from guest_place import changed_files

OPS, SECONDS, LIMIT = 20, 3, 90


def why_not(output):
    """The line of stress-ng that says why it did not run a stressor."""
    for line in output.splitlines():
        found = re.search(r"(?:stress-ng: \w+: +\[\d+\] )?(.*)", line)
        if re.search("skip|need|not |cannot|fail|error|disabled", found[1],
                     re.I) and "Working dir" not in found[1]:
            return re.sub(r"\d{3,}", "#", found[1])[:90]
    return "no reason printed"


def run(runner, name, options, recorded):
    """One run in an empty folder; its result is whether stress-ng reports
    success."""
    work = runner.fresh("stress")
    done = runner.run(
        ["stress-ng", "--temp-path", runner.seen(work), f"--{name}", "1",
         f"--{name}-ops", str(OPS), "-t", str(SECONDS), *options], work, work,
        recorded, LIMIT)
    files = changed_files(work)
    shutil.rmtree(work, ignore_errors=True)
    success = "success" if re.search(r"\bsuccessful run completed", done.output) \
        else "no success"
    found = Run(done.status, {"report": success}, files)
    found.output = done.output
    return found


def stressor(runner, report, name, options):
    """Compares one stressor. Bare runs again where the first two differ; a
    difference is then looked at in a second recorded run."""
    bare = run(runner, name, options, False)
    skipped = re.search("skipping stressor|stressor will be skipped|"
                        "No stress workers invoked", bare.output)
    if bare.status != 0 or skipped:
        report.left_out(name, f"bare: status {bare.status}, "
                        + why_not(bare.output))
        return
    recorded = run(runner, name, options, True)
    report.compared["stressors"] = report.compared.get("stressors", 0) + 1
    if not differing(bare, recorded):
        return
    again = run(runner, name, options, False)
    differences, wavering = compare(bare, recorded, again)
    note = ""
    if differences:
        second = differing(again, run(runner, name, options, True))
        note = "again" if second & differences else "once of two runs"
        if recorded.status != 0:
            note += "; " + why_not(recorded.output)
    report.add("stress-ng " + name, bare, recorded, differences, wavering, note)


def stress(runner, report, config, short, deadline):
    if not shutil.which("stress-ng"):
        report.left_out("stress-ng", "not installed: deploy/deps --test")
        return
    names = config["stress"]["short" if short else "names"].split()
    for i, name in enumerate(names):
        if report.clock() > deadline:
            report.left_out(" ".join(names[i:]), "no time left")
            break
        report.progress(f"stress-ng {name}")
        stressor(runner, report, name, config["stress"].get(name, "").split())
