wp_fuzz(fuzz_manifest
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/local/manifest/fuzz_manifest.c
  LIBS wp_local
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/manifest)
wp_fuzz(fuzz_record
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/local/sandbox/fuzz_record.c
  LIBS wp_local
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/record)
