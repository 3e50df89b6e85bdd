# Tests of the daemon's parts; each test program covers one noun.
wp_test(conf_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/conf/conf_test.c
  LIBS wp_allocator)
wp_test(daemon_notify_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/daemon/daemon_notify_test.c
  LIBS wp_allocator)
wp_test(daemon_secret_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/daemon/daemon_secret_test.c
  LIBS wp_allocator)
wp_test(known_pools_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/daemon/known_pools_test.c
  LIBS wp_allocator)
wp_test(lease_meter_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/lease_meter_test.c
  LIBS wp_allocator)
wp_test(redis_url_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/conf/redis_url_test.c
  LIBS wp_allocator)
wp_test(control_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/threads/control_test.c
  LIBS wp_allocator)
wp_test(http_head_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/http/http_head_test.c
  LIBS wp_allocator)
foreach(name http_server http_proxy http_proxy_stream)
  wp_test(${name}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/http/http_server_rig.c
    LIBS wp_allocator)
endforeach()
wp_test(http_metrics_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/metrics/http_metrics_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/pool_rig.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
  LIBS wp_allocator)
wp_test(lease_codec_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/lease_codec_test.c
  LIBS wp_allocator)
