# The API client against a server in the same event loop.
pkg_check_modules(peer_libs REQUIRED IMPORTED_TARGET
                  libevent_openssl libssl libcrypto libnghttp2)
add_library(http_peer STATIC
  ${CMAKE_SOURCE_DIR}/tests/support/http/http_peer.c
  ${CMAKE_SOURCE_DIR}/tests/support/http/http_peer_h2.c
  ${CMAKE_SOURCE_DIR}/tests/support/http/http_rig.c
  ${CMAKE_SOURCE_DIR}/tests/support/http/tls_certs.c)
target_link_libraries(http_peer PUBLIC wp_k8s PkgConfig::peer_libs
                      PRIVATE wp_flags cmocka)

foreach(name k8s_api_test k8s_http_storm_test k8s_http_stream_test
             k8s_http_test k8s_http_tls_test)
  wp_test(${name} LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}.c LIBS http_peer)
endforeach()
foreach(name k8s_rate_test k8s_token_test k8s_url_test)
  wp_test(${name} LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}.c LIBS wp_k8s)
endforeach()
