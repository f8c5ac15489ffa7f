# Names need debug information; entries and exits need the hooks.
target_compile_options(i_path PRIVATE -O1 -g)
add_executable(i_path_exact ${CMAKE_CURRENT_SOURCE_DIR}/i_path.c)
target_link_libraries(i_path_exact PRIVATE ips_warnings)
target_compile_options(i_path_exact PRIVATE -O1 -g -finstrument-functions)
set_target_properties(i_path_exact PROPERTIES ENABLE_EXPORTS ON)
