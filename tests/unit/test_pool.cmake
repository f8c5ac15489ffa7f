target_sources(test_pool PRIVATE pool_help.c)
