target_sources(test_pool_run PRIVATE pool_help.c)
