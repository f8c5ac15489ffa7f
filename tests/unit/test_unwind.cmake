target_link_libraries(test_unwind PRIVATE ips_unwind_tested)
foreach(chain "with_fp;-O2;-fno-omit-frame-pointer"
        "without_fp;-O2;-fomit-frame-pointer" "debug;-O0;-fno-omit-frame-pointer")
    list(GET chain 0 name)
    list(SUBLIST chain 1 2 flags)
    add_library(unwind_${name} OBJECT unwind_chain.c)
    target_compile_definitions(unwind_${name} PRIVATE IPS_CHAIN=${name})
    target_compile_options(unwind_${name} PRIVATE ${flags}
        -fno-optimize-sibling-calls)
    target_link_libraries(unwind_${name} PRIVATE ips_warnings)
    target_link_libraries(test_unwind PRIVATE unwind_${name})
endforeach()
