"""The test suites of Debian source packages, bare and recorded.

build/guests/PACKAGE has base (the built tree) and run (a copy of it, in which
one run of the suite takes place). Each run starts from such a copy, under the
same path.
"""
import os
import shutil
import subprocess

from guest_compare import PARSERS, Run, compare
from guest_place import GUESTS, changed_files

LIMIT = 3600
# The generated files of a release are up to date, whatever their times say.
NO_AUTOTOOLS = {name: ":" for name in
                ("AUTOMAKE", "AUTOCONF", "ACLOCAL", "AUTOHEADER", "MAKEINFO")}


def apt(*words, cwd=GUESTS):
    """apt-get with lists of its own, so that sources need not be enabled on
    the machine. They come from where the machine's packages come from."""
    top = os.path.join(GUESTS, "apt")
    return subprocess.run(
        ["apt-get", "-q", "-o", f"Dir::Etc::SourceList={top}/sources.list",
         "-o", "Dir::Etc::SourceParts=/dev/null",
         "-o", f"Dir::State::Lists={top}/lists",
         "-o", f"Dir::Cache={top}/cache", "-o", "APT::Sandbox::User=root",
         *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)


def enable_sources():
    top = os.path.join(GUESTS, "apt")
    if os.path.exists(os.path.join(top, "ready")):
        return
    for folder in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(top, folder), exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    lines = subprocess.run(
        ["apt-get", "indextargets", "--format",
         f"deb-src [signed-by={keys}] $(SITE) $(RELEASE) $(COMPONENT)",
         "Created-By: Packages", "Origin: Debian"], check=True, text=True,
        stdout=subprocess.PIPE).stdout
    with open(os.path.join(top, "sources.list"), "w") as f:
        f.write(lines)
    done = apt("update")
    if done.returncode:
        raise RuntimeError("apt-get update: " + done.stdout[-300:])
    open(os.path.join(top, "ready"), "w").close()


def fetch(package):
    """The source tree of a package, patched, as build/guests/PACKAGE/run."""
    top = os.path.join(GUESTS, package)
    shutil.rmtree(top, ignore_errors=True)
    os.makedirs(top)
    enable_sources()
    done = apt("source", "--only-source", package, cwd=top)
    trees = [entry.path for entry in os.scandir(top) if entry.is_dir()]
    if done.returncode or len(trees) != 1:
        raise RuntimeError("apt-get source: " + done.stdout[-300:])
    os.rename(trees[0], os.path.join(top, "run"))


def prepare(runner, package, section):
    """Makes build/guests/PACKAGE/base unless it is there."""
    top = os.path.join(GUESTS, package)
    if os.path.isdir(os.path.join(top, "base")):
        return
    for command in section.get("needs", "").split() + ["dpkg-source", "make"]:
        if not shutil.which(command):
            raise RuntimeError(f"needs {command}")
    fetch(package)
    tree = os.path.join(top, "run")
    runner.give_all(tree)
    temporary = runner.fresh(package, "tmp")
    done = runner.run(["sh", "-c", " ".join(section["build"].split())], tree,
                      temporary, seconds=LIMIT, more_env=NO_AUTOTOOLS)
    if done.status != 0:
        raise RuntimeError("does not build: " + done.output[-300:])
    os.rename(tree, os.path.join(top, "base"))


def run(runner, package, section, recorded, keep):
    """One run of the suite; its output stays as build/guests/PACKAGE/`keep`."""
    top = os.path.join(GUESTS, package)
    base, tree = os.path.join(top, "base"), os.path.join(top, "run")
    subprocess.run(["rm", "-rf", tree], check=True)
    subprocess.run(["cp", "-a", base, tree], check=True)
    temporary = runner.fresh(package, "tmp")
    done = runner.run(["sh", "-c", " ".join(section["check"].split())], tree,
                      temporary, recorded, LIMIT, NO_AUTOTOOLS)
    with open(os.path.join(top, keep), "w") as f:
        f.write(done.output)
    results = PARSERS[section["results"]](tree, done.output)
    files = changed_files(tree, base)
    files.update({"TMPDIR/" + name: text
                  for name, text in changed_files(temporary).items()})
    return Run(done.status, results, files)


def suite(runner, report, package, section):
    try:
        prepare(runner, package, section)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        report.left_out(package, str(error))
        return
    runs = []
    for keep in ("bare", "recorded", "bare-again"):
        report.progress(f"{package}, {keep}")
        runs.append(run(runner, package, section, keep == "recorded", keep))
    bare, recorded, again = runs
    failed = sorted(name for name, word in bare.results.items()
                    if word == again.results.get(name) in ("FAIL", "ERROR"))
    if failed:
        report.left_out(package + ": " + ", ".join(failed), "fails bare")
    for one in runs:
        for name in failed:
            one.results.pop(name, None)
    report.compared[package] = (f"{len(bare.results)} tests and "
                                f"{len(bare.files)} files")
    report.add(package, bare, recorded, *compare(bare, recorded, again))
