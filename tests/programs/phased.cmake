# Uses the agent's API (its header is agent/ips.h, its library libips.so).
target_link_libraries(phased PRIVATE ips)
