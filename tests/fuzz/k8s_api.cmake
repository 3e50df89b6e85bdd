foreach(name api_answer token)
  wp_fuzz(fuzz_k8s_${name}
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_k8s_${name}.c
    LIBS wp_k8s
    CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_${name})
endforeach()
