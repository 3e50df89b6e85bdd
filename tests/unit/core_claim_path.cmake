# wp_count_calls(TARGET): every call of statically linked code to one of these
# goes through a counter; see tests/support/call_counts.h.
function(wp_count_calls target)
  target_sources(${target} PRIVATE
                 ${CMAKE_SOURCE_DIR}/tests/support/base/call_counts.c)
  foreach(name malloc calloc realloc free aligned_alloc posix_memalign mmap
          pthread_mutex_lock pthread_mutex_trylock pthread_rwlock_rdlock
          pthread_rwlock_wrlock pthread_cond_wait pthread_cond_signal
          pthread_cond_broadcast read write)
    target_link_options(${target} PRIVATE -Wl,--wrap=${name})
  endforeach()
endfunction()

wp_test(claim_path_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/core/claim_path_test.c
          ${CMAKE_SOURCE_DIR}/bench/micro/pool_rig.c
          ${CMAKE_SOURCE_DIR}/bench/micro/synthetic_backend.c
  LIBS wp_pool)
wp_count_calls(claim_path_test)
