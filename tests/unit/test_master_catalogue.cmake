# What SQLite allocates is counted, too.
set_target_properties(test_master_catalogue PROPERTIES ENABLE_EXPORTS ON)
