target_compile_definitions(test_tls PRIVATE
    DEPLOY_KEYS="${CMAKE_SOURCE_DIR}/deploy/keys")
