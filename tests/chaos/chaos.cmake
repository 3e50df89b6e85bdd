# Proof with real processes: clients that write down what they see while daemons
# are killed, a checker that judges it, and a test of the checker itself.
set(chaos ${CMAKE_CURRENT_LIST_DIR})
wp_test(chaos_checker_test LABEL unit
  SOURCES ${chaos}/checker_test.c ${chaos}/checker.c
  LIBS wp_base)
wp_program(chaos_check SOURCES ${chaos}/check_main.c ${chaos}/checker.c
  LIBS wp_base)

# A client that sees less than the daemon it drives proves little, so it is
# built on the light one of bench/, which sanitizers do without.
if(WP_BUILD_BENCH AND NOT WP_SANITIZE)
  wp_program(chaos_client
    SOURCES ${chaos}/client.c ${chaos}/history.c ${chaos}/link.c
            ${chaos}/marks.c ${chaos}/worker.c
    LIBS wp_bench_load wp_proto)
  # wp_chaos(NAME TIMEOUT s ARGS ...): a run of chaos.py.
  function(wp_chaos name)
    cmake_parse_arguments(A "" "TIMEOUT" "ARGS" ${ARGN})
    add_test(NAME chaos/${name}
      COMMAND ${WP_PYTHON} ${chaos}/chaos.py $<TARGET_FILE:warmpoold>
              $<TARGET_FILE:chaos_client> $<TARGET_FILE:chaos_check>
              ${CMAKE_CURRENT_BINARY_DIR}/python ${A_ARGS})
    set_tests_properties(chaos/${name} PROPERTIES LABELS chaos
                         TIMEOUT ${A_TIMEOUT} RUN_SERIAL TRUE)
  endfunction()
  wp_chaos(memory TIMEOUT 600
    ARGS --store memory --claims 30000 --seconds 15)
  wp_chaos(sqlite TIMEOUT 600
    ARGS --store sqlite --claims 50000 --seconds 40)
  find_program(WP_REDIS_SERVER redis-server)
  if(WP_REDIS_SERVER)
    wp_chaos(redis TIMEOUT 900
      ARGS --store redis --replicas 3 --claims 100000 --seconds 90 --pace 1.5)
    # Four failovers: one of each kind.
    wp_chaos(sentinel TIMEOUT 900
      ARGS --store sentinel --replicas 2 --claims 20000 --seconds 20
           --failovers 4)
    add_test(NAME chaos/takeover
      COMMAND ${WP_PYTHON} ${chaos}/takeover_test.py $<TARGET_FILE:warmpoold>
              ${CMAKE_CURRENT_BINARY_DIR}/python)
    set_tests_properties(chaos/takeover PROPERTIES LABELS chaos TIMEOUT 900
                         RUN_SERIAL TRUE)
  endif()
endif()

add_test(NAME chaos/restart
  COMMAND ${WP_PYTHON} ${chaos}/restart_test.py $<TARGET_FILE:warmpoold>
          ${CMAKE_CURRENT_BINARY_DIR}/python)
set_tests_properties(chaos/restart PROPERTIES LABELS chaos TIMEOUT 900
                     RUN_SERIAL TRUE)
