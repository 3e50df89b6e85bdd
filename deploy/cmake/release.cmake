# What is released beside the programs: the list of what they are made of, written
# when they are installed, and an archive with digests.
find_library(WP_LIBC_ARCHIVE libc.a)
set(WP_SBOM_ARCHIVES warmpool-init=${WP_LIBC_ARCHIVE})
foreach(archive ${WP_event_ARCHIVE} ${WP_jansson_ARCHIVE} ${WP_nettle_ARCHIVE}
        ${WP_HTTP_PARSER_ARCHIVE} ${WP_LIBC_ARCHIVE})
  list(APPEND WP_SBOM_ARCHIVES warmpool-runtime=${archive})
endforeach()
list(JOIN WP_SBOM_ARCHIVES " " WP_SBOM_ARCHIVES)
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  find_program(dpkg dpkg-query)
  if(dpkg)
    file(MAKE_DIRECTORY \"\${root}/${CMAKE_INSTALL_DOCDIR}\")
    execute_process(
      COMMAND ${CMAKE_SOURCE_DIR}/deploy/sbom.sh ${PROJECT_VERSION}
              ${WP_SBOM_ARCHIVES} --
              \"\${root}/${CMAKE_INSTALL_SBINDIR}/warmpoold\"
              \"\${root}/${CMAKE_INSTALL_BINDIR}/warmpoolctl\"
              \"\${root}/${CMAKE_INSTALL_BINDIR}/warmpool-load\"
              \"\${root}/${CMAKE_INSTALL_BINDIR}/warmpool-runtime\"
              \"\${root}/${CMAKE_INSTALL_LIBEXECDIR}/warmpool/warmpool-egress\"
              \"\${root}/${CMAKE_INSTALL_LIBEXECDIR}/warmpool/warmpool-fetch\"
              \"\${root}/${CMAKE_INSTALL_LIBEXECDIR}/warmpool/warmpool-init\"
      OUTPUT_FILE \"\${root}/${CMAKE_INSTALL_DOCDIR}/warmpool.spdx.json\"
      COMMAND_ERROR_IS_FATAL ANY)
  else()
    message(WARNING \"no dpkg: no list of what the programs are made of\")
  endif()
")
add_custom_target(release_files
  COMMAND ${CMAKE_SOURCE_DIR}/deploy/release.sh ${CMAKE_BINARY_DIR}
          ${PROJECT_VERSION} ${CMAKE_BINARY_DIR}/release
  DEPENDS warmpoold warmpoolctl warmpool-load warmpool-runtime warmpool-egress
          warmpool-fetch warmpool-init VERBATIM)
