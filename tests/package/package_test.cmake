# Run with cmake -P by the test package.consumer; the variables are given on its command line.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/a prefix")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}" --config "${CONFIG}")

set(flags)
if(SANITIZE)
  set(flags "-DCMAKE_CXX_FLAGS=-fsanitize=address,undefined")
endif()
run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE_DIR}" -B "${WORK_DIR}/build" "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX}"
    "-DCMAKE_BUILD_TYPE=${CONFIG}" ${flags})
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
run("${WORK_DIR}/build/consumer" "${DUMP}")
if(NOT output MATCHES "33 nodes, largest error 0.5")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()

# The installation is complete: the program, where it was built, and the data it reads.
if(EXISTS "${BUILD_DIR}/msvis-mpi")
  run("${prefix}/bin/msvis-mpi" --version)
  run("${prefix}/bin/msvis-pack" --version)
endif()
file(GLOB_RECURSE rules "${prefix}/*/overflow_ignore_rules.json")
if(NOT rules)
  message(FATAL_ERROR "overflow_ignore_rules.json is not installed")
endif()
