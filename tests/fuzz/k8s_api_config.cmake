wp_fuzz(fuzz_api_config
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/k8s/api/fuzz_api_config.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/api_config)
