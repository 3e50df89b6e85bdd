wp_test(replica_stress LABEL stress TIMEOUT 600
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/replica_stress.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
          ${CMAKE_SOURCE_DIR}/tests/support/stores/model_store.c
  LIBS wp_pool)
