target_sources(test_agent_core PRIVATE core_help.c pool_help.c)
target_link_libraries(test_agent_core PRIVATE ips_core_tested)
set_tests_properties(unit/test_agent_core PROPERTIES TIMEOUT 120)
