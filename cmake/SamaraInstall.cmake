install(TARGETS samara_static samara_shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/samara DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
configure_file(cmake/samara.pc.in samara.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/samara.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
