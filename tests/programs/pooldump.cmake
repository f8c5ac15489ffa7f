# Not a program to measure: prints what others recorded.
target_link_libraries(pooldump PRIVATE ips_sanitize ips_pool)
set_target_properties(pooldump PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
