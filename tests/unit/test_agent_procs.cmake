target_sources(test_agent_procs PRIVATE core_help.c pool_help.c)
target_link_libraries(test_agent_procs PRIVATE ips_core)
