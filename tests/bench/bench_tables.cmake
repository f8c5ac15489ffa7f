target_compile_options(bench_tables PRIVATE -finstrument-functions)
