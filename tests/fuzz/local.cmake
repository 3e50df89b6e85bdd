wp_fuzz(fuzz_manifest
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_manifest.c
  LIBS wp_local
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/manifest)
wp_fuzz(fuzz_record
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_record.c
  LIBS wp_local
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/record)
