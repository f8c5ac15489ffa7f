find_package(Threads REQUIRED)
target_link_libraries(takers PRIVATE Threads::Threads)
