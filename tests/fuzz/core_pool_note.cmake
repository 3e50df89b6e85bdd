wp_fuzz(fuzz_pool_note
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_pool_note.c
          ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c
  LIBS wp_pool
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/pool_note)
