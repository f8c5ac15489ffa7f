target_sources(test_ips_api PRIVATE pool_help.c)
if(IPS_SANITIZE AND NOT IPS_SANITIZE MATCHES "thread")
    # libips.so's own sources first; the library is there for its handle.
    target_sources(test_ips_api PRIVATE ${CMAKE_SOURCE_DIR}/agent/ips.c)
    target_compile_options(test_ips_api PRIVATE -fPIC)
    target_link_libraries(test_ips_api PRIVATE ips_core_tested)
endif()
target_link_libraries(test_ips_api PRIVATE ips)
target_compile_definitions(test_ips_api PRIVATE
    PRELOAD_LIBRARY="$<TARGET_FILE:ips-preload>")
add_dependencies(test_ips_api ips-preload)
