target_sources(bench_links PRIVATE links_net.c links_graph.c links_slave.c)
target_link_libraries(bench_links PRIVATE ips_master ips_slave
    ips_proto)
