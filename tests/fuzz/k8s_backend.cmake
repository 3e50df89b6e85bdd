wp_fuzz(fuzz_lease_note
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_lease_note.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/lease_note)
