# Schedules against Python's own zones, found minute by minute.
add_executable(scale_schedule_ask
  ${CMAKE_SOURCE_DIR}/tests/unit/pool/policy/scale_schedule_ask.c)
target_link_libraries(scale_schedule_ask PRIVATE wp_advice wp_flags)
add_test(NAME unit/scale_schedule_oracle
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/unit/pool/policy/scale_schedule_oracle.py
          $<TARGET_FILE:scale_schedule_ask>)
set_tests_properties(unit/scale_schedule_oracle PROPERTIES
                     LABELS unit TIMEOUT 600)
