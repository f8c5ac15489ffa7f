target_compile_definitions(test_tls PRIVATE
    DEPLOY_KEYS="${CMAKE_SOURCE_DIR}/deploy/keys")
target_link_options(test_tls PRIVATE LINKER:--wrap=ips_log
    LINKER:--wrap=event_base_once LINKER:--wrap=clock_gettime)
