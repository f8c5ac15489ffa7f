# Uses the agent's API (its header is agent/ips.h, its library libips.so).
if(TARGET ips)
    target_link_libraries(golden PRIVATE ips)
else()
    set_target_properties(golden PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
