# samara_test(NAME file.c ... [LABELS l...] [ARGS a...] [TIMEOUT s] [LIBS l...] [PRESETS p...] [SERIAL])
# One test program, linked to the static library (so it may look inside), run by ctest.
# SERIAL: measures time or uses both CPUs, so nothing else runs beside it.
function(samara_test name)
  cmake_parse_arguments(T "SERIAL" "TIMEOUT" "LABELS;ARGS;LIBS;SOURCES" ${ARGN})
  add_executable(${name} ${T_UNPARSED_ARGUMENTS} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests
                                             ${PROJECT_SOURCE_DIR}/bench)
  target_link_libraries(${name} PRIVATE samara_static ${T_LIBS})
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
  if(T_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  samara_sanitizer_environment(${name})
endfunction()

# Options that every sanitized test runs under.
function(samara_sanitizer_environment name)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:history_size=7"
    "ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=0"
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "SAMARA_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
    "SAMARA_BUILD_DIR=${PROJECT_BINARY_DIR}")
endfunction()
