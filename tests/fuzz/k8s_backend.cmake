wp_fuzz(fuzz_lease_note
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/k8s/objects/fuzz_lease_note.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/lease_note)
