# What `cmake --install` puts where. The programs find each other relative to
# themselves (common/paths.h), so any prefix will do and none is compiled in.
install(TARGETS ipsrun ips-slave ips-master ipsq
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ips ips-preload
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES agent/api/ips.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ips)
install(FILES docs/ipsrun.1 docs/ips-slave.1 docs/ips-master.1 docs/ipsq.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# Where bash-completion, zsh and fish look: a file for each command.
foreach(program ipsq ipsrun)
    install(FILES client/completion/ipsq.bash RENAME ${program}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES client/completion/ipsq.fish RENAME ${program}.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()
install(FILES client/completion/_ipsq
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES README.md NEWS.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Units that say where the programs are - known only at install time, for the
# prefix may be given then. To use them, copy or link them into
# /etc/systemd/system and /etc/tmpfiles.d.
foreach(unit ips-master ips-slave)
    install(CODE "set(IPS_BINDIR
            \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
        configure_file(${CMAKE_SOURCE_DIR}/deploy/systemd/${unit}.service.in
            ${CMAKE_BINARY_DIR}/${unit}.service @ONLY)")
    install(FILES ${CMAKE_BINARY_DIR}/${unit}.service
        DESTINATION ${CMAKE_INSTALL_DATADIR}/ips/systemd)
endforeach()
install(PROGRAMS deploy/keys DESTINATION ${CMAKE_INSTALL_DATADIR}/ips)
install(FILES deploy/tmpfiles/ips.conf
    DESTINATION ${CMAKE_INSTALL_DATADIR}/ips/tmpfiles)
