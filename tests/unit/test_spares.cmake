target_sources(test_spares PRIVATE core_help.c pool_help.c)
target_link_libraries(test_spares PRIVATE ips_core_tested ips_slave)
set_tests_properties(unit/test_spares PROPERTIES TIMEOUT 120)
