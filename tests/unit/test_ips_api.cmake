target_sources(test_ips_api PRIVATE pool_help.c)
target_link_libraries(test_ips_api PRIVATE ips)
target_compile_definitions(test_ips_api PRIVATE
    PRELOAD_LIBRARY="$<TARGET_FILE:ips-preload>")
add_dependencies(test_ips_api ips-preload)
