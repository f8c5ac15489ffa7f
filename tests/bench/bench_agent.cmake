target_sources(bench_agent PRIVATE ${CMAKE_SOURCE_DIR}/agent/ips_mark.c)
target_link_libraries(bench_agent PRIVATE ips_core)
