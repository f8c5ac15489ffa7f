target_sources(test_agent_quota PRIVATE core_help.c pool_help.c)
target_link_libraries(test_agent_quota PRIVATE ips_core_tested)
set_tests_properties(unit/test_agent_quota PROPERTIES TIMEOUT 120)
