def bench(build, runs): pass
