# Not a program to measure: the graph of a pool directory, without daemons.
target_link_libraries(poolgraph PRIVATE ips_sanitize ips_slave)
set_target_properties(poolgraph PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
