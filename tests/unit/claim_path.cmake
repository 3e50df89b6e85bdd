wp_test(claim_path_service_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/claim_path_service_test.c
          ${CMAKE_SOURCE_DIR}/bench/claim_codec.c
          ${CMAKE_SOURCE_DIR}/bench/pool_rig.c
          ${CMAKE_SOURCE_DIR}/bench/synthetic_backend.c
  LIBS wp_allocator)
wp_count_calls(claim_path_service_test)
