target_link_libraries(test_cluster_leaks PRIVATE ips_synth ips_test_fault)
# What libraries allocate is counted, too.
set_target_properties(test_cluster_leaks PROPERTIES ENABLE_EXPORTS ON)
