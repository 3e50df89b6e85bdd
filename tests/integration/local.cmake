# Real sandboxes. Exit 77: this machine cannot make any, and says why.
function(wp_local_test name)
  wp_test(${name} LABEL integration
    SOURCES ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}.c
            ${CMAKE_SOURCE_DIR}/tests/support/local/local_rig.c ${ARGN}
    LIBS wp_local wp::jansson
    TIMEOUT 600)
  target_compile_definitions(${name} PRIVATE
    WP_TEST_INIT="$<TARGET_FILE:warmpool-init>"
    WP_TEST_RUNTIME="$<TARGET_FILE:warmpool-runtime>")
  add_dependencies(${name} warmpool-init warmpool-runtime)
  set_tests_properties(integration/${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

foreach(part life refusal sweep walls)
  wp_local_test(local_${part}_test)
endforeach()
# For an image without libraries; so static, and without sanitizers.
add_executable(static_server ${CMAKE_SOURCE_DIR}/tests/support/local/static_server.c)
target_compile_definitions(static_server PRIVATE _GNU_SOURCE)
target_link_options(static_server PRIVATE -static)
target_compile_definitions(local_walls_test PRIVATE
  WP_TEST_STATIC_SERVER="$<TARGET_FILE:static_server>")
add_dependencies(local_walls_test static_server)
# Exit 77 as well: runsc is not installed.
wp_local_test(local_gvisor_test)
# Daemons that are killed, and what the next one finds.
foreach(part adopt adopt_faults lock)
  wp_local_test(local_${part}_test
                ${CMAKE_SOURCE_DIR}/tests/support/local/adopt_rig.c)
endforeach()
