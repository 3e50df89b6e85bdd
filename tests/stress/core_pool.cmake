wp_test(pool_stress LABEL stress TIMEOUT 120
  SOURCES ${CMAKE_SOURCE_DIR}/tests/stress/pool_stress.c
          ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c
  LIBS wp_pool)
