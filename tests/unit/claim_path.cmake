wp_test(claim_path_service_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/services/claim_path_service_test.c
          ${CMAKE_SOURCE_DIR}/bench/load/claim_codec.c
          ${CMAKE_SOURCE_DIR}/bench/micro/pool_rig.c
          ${CMAKE_SOURCE_DIR}/bench/micro/synthetic_backend.c
  LIBS wp_allocator)
wp_count_calls(claim_path_service_test)
