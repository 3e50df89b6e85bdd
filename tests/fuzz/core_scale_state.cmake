wp_fuzz(fuzz_scaler_state
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/pool/scale/fuzz_scaler_state.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/scaler_state)
