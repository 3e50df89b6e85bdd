# Build rules every folder shares: one place for warnings, hardening and
# sanitizers, and one helper for each kind of target.

set(WP_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wconversion -Wsign-conversion -Wcast-qual -Wformat=2 -Wundef -Wvla
    -Wswitch-enum)

# What is free or nearly so, for every program: stacks that cannot be jumped over,
# and on x86 marks for the places that indirect jumps may reach.
set(WP_HARDENING -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|i[3-6]86")
  list(APPEND WP_HARDENING -fcf-protection=full)
endif()

set(WP_HARDENED_LINK -Wl,-z,relro,-z,now,-z,noexecstack)

add_library(wp_flags INTERFACE)
target_include_directories(wp_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(wp_flags INTERFACE _GNU_SOURCE
                           WP_VERSION="${PROJECT_VERSION}"
                           $<$<BOOL:${WP_TEST_TOOLS}>:WP_TEST_TOOLS>)
target_compile_options(wp_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:${WP_WARNINGS}>
    $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${WP_WERROR}>>:-Werror>
    -fno-omit-frame-pointer ${WP_HARDENING} -g)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT WP_SANITIZE)
  target_compile_options(wp_flags INTERFACE -O2 -D_FORTIFY_SOURCE=2)
endif()
if(NOT WP_SANITIZE)
  target_link_options(wp_flags INTERFACE ${WP_HARDENED_LINK})
endif()
if(WP_SANITIZE)
  target_compile_options(wp_flags INTERFACE -fsanitize=${WP_SANITIZE}
                         -fno-sanitize-recover=all -O1)
  target_link_options(wp_flags INTERFACE -fsanitize=${WP_SANITIZE})
endif()
if(WP_FUZZ)
  target_compile_options(wp_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT WP_SANITIZE)
  # Debuggers lose nothing, and tests that compute take half the time.
  set(CMAKE_C_FLAGS_DEBUG "-g -Og")
endif()
# Release keeps asserts: CMake's default would add -DNDEBUG.
set(CMAKE_C_FLAGS_RELEASE "")
set(CMAKE_CXX_FLAGS_RELEASE "")

# wp_library(NAME SOURCES ... LIBS ...): a static library with the house flags.
function(wp_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_LIBS} PRIVATE wp_flags)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
endfunction()

# wp_program(NAME SOURCES ... LIBS ...): an executable with the house flags.
function(wp_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LIBS} wp_flags)
endfunction()

# wp_computes(NAME): tests compute with this library for long, so it is optimized in
# a debug build as well; it takes half the time.
function(wp_computes name)
  if(NOT WP_SANITIZE)
    target_compile_options(${name} PRIVATE -O2)
  endif()
endfunction()

# wp_static(NAME): the program needs no library of the root it runs in, and lies
# anywhere. Its libraries have to be of wp_import_either. Sanitizers need theirs
# to be shared.
function(wp_static name)
  if(NOT WP_SANITIZE)
    set_target_properties(${name} PROPERTIES WP_STATIC TRUE)
    target_link_options(${name} PRIVATE -static-pie ${WP_HARDENED_LINK})
  endif()
endfunction()

# wp_test(NAME LABEL level SOURCES ... LIBS ... [TIMEOUT s] [COST s] [MAY_SKIP]
# [ONE_THREAD] [SLOW]): a cmocka (or plain) test program, run by ctest under its
# level's label. It fails when it leaves a descriptor open. COST: what takes
# longest begins first. MAY_SKIP: exit 77 says that this machine cannot run it.
# ONE_THREAD: it computes long, in one thread, so the thread sanitizer has no
# part in it. SLOW: it uses a processor for two seconds or more, and has the
# label "slow", too, which `tests/run.sh --fast` leaves out.
function(wp_test name)
  cmake_parse_arguments(A "MAY_SKIP;ONE_THREAD;SLOW" "LABEL;TIMEOUT;COST" "SOURCES;LIBS" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  if(A_ONE_THREAD AND WP_SANITIZE STREQUAL "thread")
    return()
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LIBS} wp_test_left_open cmocka
                        wp_flags)
  add_test(NAME ${A_LABEL}/${name} COMMAND ${name})
  set(labels ${A_LABEL})
  if(A_SLOW)
    list(APPEND labels slow)
  endif()
  set_tests_properties(${A_LABEL}/${name} PROPERTIES
                       LABELS "${labels}" TIMEOUT ${A_TIMEOUT})
  if(A_COST)
    set_tests_properties(${A_LABEL}/${name} PROPERTIES COST ${A_COST})
  endif()
  if(A_MAY_SKIP)
    set_tests_properties(${A_LABEL}/${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# wp_fuzz(NAME SOURCES ... LIBS ... CORPUS name): a libFuzzer target; the source
# defines LLVMFuzzerTestOneInput. Without WP_FUZZ the corpus is replayed once by
# a plain main, so that every build checks what the fuzzer has found.
function(wp_fuzz name)
  cmake_parse_arguments(A "" "CORPUS" "SOURCES;LIBS" ${ARGN})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${A_CORPUS})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_LIBS} wp_flags)
  if(WP_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_link_libraries(${name} PRIVATE wp_test_fuzz_replay)
    add_test(NAME fuzz/${name} COMMAND ${name} ${corpus})
    set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz TIMEOUT 60)
  endif()
  set_property(GLOBAL APPEND PROPERTY WP_FUZZ_TARGETS "${name}=${corpus}")
endfunction()
