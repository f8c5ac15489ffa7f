# Every procedure of it calls the hooks, inlined ones too. The library is not
# linked: it is loaded while the program runs.
target_compile_options(i_instrumented PRIVATE -finstrument-functions -O1)
set_target_properties(i_instrumented PROPERTIES ENABLE_EXPORTS ON)
add_library(i_instrumented_lib MODULE
    ${CMAKE_CURRENT_SOURCE_DIR}/instrumented/lib.c)
target_compile_options(i_instrumented_lib PRIVATE -finstrument-functions)
target_link_libraries(i_instrumented_lib PRIVATE ips_warnings)
set_target_properties(i_instrumented_lib PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/programs)
add_dependencies(i_instrumented i_instrumented_lib)
