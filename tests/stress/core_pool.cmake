wp_test(pool_stress LABEL stress TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/stress/pool_stress.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
  LIBS wp_pool)
wp_test(pool_shape_stress LABEL stress TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/stress/pool_shape_stress.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
  LIBS wp_pool)
