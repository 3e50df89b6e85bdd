# The whole core in a simulated world, on a simulated clock.
set(WP_SIM ${CMAKE_SOURCE_DIR}/tests/sim)
set(WP_SIM_WORLD
    ${WP_SIM}/sim.c ${WP_SIM}/sim_backend.c ${WP_SIM}/sim_client.c
    ${WP_SIM}/sim_conn.c ${WP_SIM}/sim_failover.c ${WP_SIM}/sim_feed.c
    ${WP_SIM}/sim_nemesis.c ${WP_SIM}/sim_oracle.c ${WP_SIM}/sim_recover.c
    ${WP_SIM}/sim_replica.c ${WP_SIM}/sim_shape.c ${WP_SIM}/sim_store.c)
wp_test(sim_test LABEL sim TIMEOUT 900
  SOURCES ${WP_SIM}/sim_test.c ${WP_SIM_WORLD}
  LIBS wp_pool)

# The core once more, with the bugs that the simulation must catch.
set(mutants)
foreach(room core table grant records sizing slots claims leases refill)
  get_target_property(sources wp_${room} SOURCES)
  list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/pool/${room}/)
  list(APPEND mutants ${sources})
endforeach()
wp_library(wp_pool_mutants
  SOURCES ${mutants}
  LIBS wp_base wp_advice PkgConfig::nettle)
target_compile_definitions(wp_pool_mutants PUBLIC WP_MUTANTS=1)
wp_test(sim_mutants LABEL sim TIMEOUT 600
  SOURCES ${WP_SIM}/sim_mutants.c ${WP_SIM_WORLD}
  LIBS wp_pool_mutants)
