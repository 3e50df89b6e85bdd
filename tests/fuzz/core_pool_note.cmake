wp_fuzz(fuzz_pool_note
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/pool/core/fuzz_pool_note.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
  LIBS wp_pool
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/pool_note)
