target_sources(test_agent_end PRIVATE core_help.c pool_help.c)
target_link_libraries(test_agent_end PRIVATE ips_core_tested)
