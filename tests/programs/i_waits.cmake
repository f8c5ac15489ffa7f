target_compile_options(i_waits PRIVATE -O1 -g)
