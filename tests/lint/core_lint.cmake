add_test(NAME lint/house_rules
         COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/lint.py)
set_tests_properties(lint/house_rules PROPERTIES LABELS lint TIMEOUT 300)

find_program(WP_SHELLCHECK shellcheck)
if(WP_SHELLCHECK)
  file(GLOB_RECURSE scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/deploy/*.sh
       ${CMAKE_SOURCE_DIR}/tests/*.sh ${CMAKE_SOURCE_DIR}/bench/*.sh)
  if(scripts)
    add_test(NAME lint/shellcheck COMMAND ${WP_SHELLCHECK} -x ${scripts})
    set_tests_properties(lint/shellcheck PROPERTIES LABELS lint TIMEOUT 300)
  endif()
else()
  message(STATUS "shellcheck is missing: the scripts are not checked")
endif()
