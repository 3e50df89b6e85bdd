wp_test(service_race_test LABEL stress TIMEOUT 600
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/service_race_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
          ${CMAKE_SOURCE_DIR}/tests/support/services/fake_call.c
  LIBS wp_allocator)
