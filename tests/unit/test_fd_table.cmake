target_sources(test_fd_table PRIVATE ${CMAKE_SOURCE_DIR}/agent/fd_table.c)
