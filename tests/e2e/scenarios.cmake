# The whole product on a real control plane. Built once, outside the tree; where it
# cannot be had each of these says so and counts as skipped.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT WP_SANITIZE)
  add_test(NAME e2e/control_plane
           COMMAND ${CMAKE_CURRENT_LIST_DIR}/tools/build.sh)
  set_tests_properties(e2e/control_plane PROPERTIES
                       LABELS e2e TIMEOUT 2400 SKIP_RETURN_CODE 77
                       RUN_SERIAL TRUE FIXTURES_SETUP control_plane)
  file(GLOB scenarios CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/e2e_*.py)
  foreach(scenario ${scenarios})
    cmake_path(GET scenario STEM name)
    string(REPLACE "e2e_" "e2e/" name ${name})
    add_test(NAME ${name}
             COMMAND ${WP_PYTHON} ${scenario} ${CMAKE_BINARY_DIR})
    set_tests_properties(${name} PROPERTIES LABELS e2e TIMEOUT 3600
                         RUN_SERIAL TRUE SKIP_RETURN_CODE 77
                         FIXTURES_REQUIRED control_plane)
  endforeach()
endif()
