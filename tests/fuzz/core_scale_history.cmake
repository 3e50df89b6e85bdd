wp_fuzz(fuzz_scale_history
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/pool/history/fuzz_scale_history.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/scale_history)
wp_fuzz(fuzz_scale_history_csv
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/pool/history/fuzz_scale_history_csv.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/scale_history_csv)
