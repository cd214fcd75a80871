# Functions that every room uses, so that targets are declared in one way.

set(MSVIS_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 takes `"text" + std::string` for an overlapping copy (its bug 105651).
  list(APPEND MSVIS_WARNINGS -Wno-restrict)
endif()
if(MSVIS_WERROR)
  list(APPEND MSVIS_WARNINGS -Werror)
endif()

function(msvis_compile_options target)
  target_compile_options(${target} PRIVATE ${MSVIS_WARNINGS})
  if(MSVIS_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
  if(MSVIS_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

# msvis_room(NAME SOURCES ... [PUBLIC libs ...] [PRIVATE libs ...]): a static library msvis_NAME, exported as msvis::NAME.
function(msvis_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(msvis_${name} STATIC ${ARG_SOURCES})
  add_library(msvis::${name} ALIAS msvis_${name})
  set_target_properties(msvis_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(msvis_${name} PUBLIC cxx_std_20)
  target_include_directories(msvis_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                             PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(msvis_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  msvis_compile_options(msvis_${name})
  set_property(GLOBAL APPEND PROPERTY MSVIS_ROOMS msvis_${name})
endfunction()

# msvis_unit_test(NAME SOURCES ... LIBS ...): a GoogleTest program, label "unit".
function(msvis_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE MSVIS_TESTDATA="${PROJECT_SOURCE_DIR}/testdata" MSVIS_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest_main GTest::gmock)
  msvis_compile_options(${name})
  add_test(NAME unit.${name} COMMAND ${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()
