# The protocol of leases, in every state it can get into; 77 without spin.
if(NOT WP_SANITIZE)
  add_test(NAME model/lease COMMAND ${CMAKE_SOURCE_DIR}/tests/model/run.sh)
  set_tests_properties(model/lease PROPERTIES LABELS model TIMEOUT 3600 COST 200
                       SKIP_RETURN_CODE 77)
endif()
