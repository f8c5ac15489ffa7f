# Its procedures must stay procedures of that name, with a frame of their own.
find_package(Threads REQUIRED)
target_link_libraries(whatif_real PRIVATE Threads::Threads)
target_compile_options(whatif_real PRIVATE -O1 -g)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(whatif_real PRIVATE -fno-ipa-icf)
endif()
