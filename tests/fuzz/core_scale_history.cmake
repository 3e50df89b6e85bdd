wp_fuzz(fuzz_scale_history
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_scale_history.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/scale_history)
wp_fuzz(fuzz_scale_history_csv
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_scale_history_csv.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/scale_history_csv)
