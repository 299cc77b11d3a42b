# SPDX-License-Identifier: MIT
# cheetah_module(NAME [COLD] DEPENDS ... LIBRARIES ...) makes the library cheetah_NAME and, for its tests, NAME_test.
# COLD: the module's speed does not matter, so it is compiled with -O1, in little more than half the time.
# Sources are added by name: cheetah_sources(NAME ...) for the library, cheetah_tests(NAME ...) for the tests;
# the folders below a module call the same two functions.
include(Precompile)

function(cheetah_module name)
  cmake_parse_arguments(ARG "COLD" "" "DEPENDS;LIBRARIES" ${ARGN})
  add_library(cheetah_${name} STATIC)
  if(ARG_COLD)
    cheetah_use_precompiled(cheetah_${name} cold)
  else()
    cheetah_use_precompiled(cheetah_${name} hot)
  endif()
  target_include_directories(cheetah_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(cheetah_${name} PUBLIC cheetah_${dependency})
  endforeach()
  target_link_libraries(cheetah_${name} PUBLIC ${ARG_LIBRARIES})
endfunction()

function(cheetah_sources name)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(cheetah_${name} PRIVATE ${ARGN})
endfunction()

# Device code is built for Hopper; unless it uses that chip's own instructions, it carries PTX besides that any card from
# Ampere on can run.
function(cheetah_set_cuda_targets target hopper)
  set(options "-gencode=arch=compute_90a,code=sm_90a")
  if(NOT hopper)
    list(APPEND options "-gencode=arch=compute_80,code=compute_80")
  endif()
  list(FILTER ARGN INCLUDE REGEX "\\.cu$")
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()

# cheetah_cuda_sources(NAME [HOPPER] file.cu ...): left out where there is no CUDA compiler.
function(cheetah_cuda_sources name)
  if(NOT CHEETAH_HAS_CUDA)
    return()
  endif()
  cmake_parse_arguments(ARG "HOPPER" "" "" ${ARGN})
  list(TRANSFORM ARG_UNPARSED_ARGUMENTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(cheetah_${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  cheetah_set_cuda_targets(cheetah_${name} ${ARG_HOPPER} ${ARG_UNPARSED_ARGUMENTS})
endfunction()

# cheetah_cuda_tests(NAME file ...): tests that need a GPU, all in the one program cuda_test, which says so and passes
# where there is none.
function(cheetah_cuda_tests name)
  if(NOT CHEETAH_HAS_CUDA OR NOT CHEETAH_HAS_TESTS)
    return()
  endif()
  if(NOT TARGET cuda_test)
    add_executable(cuda_test)
    target_link_libraries(cuda_test PRIVATE GTest::gtest)
    target_compile_definitions(cuda_test PRIVATE CHEETAH_SOURCE_DIR=".")
    set_target_properties(cuda_test PROPERTIES LINKER_LANGUAGE CXX)
    add_test(NAME cuda COMMAND cuda_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(cuda PROPERTIES TIMEOUT 600 LABELS gpu)
  endif()
  target_link_libraries(cuda_test PRIVATE cheetah_${name})
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(cuda_test PRIVATE ${ARGN})
  cheetah_set_cuda_targets(cuda_test OFF ${ARGN})
endfunction()

function(cheetah_tests name)
  if(NOT TARGET ${name}_test)
    add_executable(${name}_test)
    if(CHEETAH_HAS_TESTS)
      target_link_libraries(${name}_test PRIVATE cheetah_${name} GTest::gtest GTest::gtest_main ${RAPIDCHECK_LIBRARY})
      cheetah_use_precompiled(${name}_test tests)
    else()
      set_target_properties(${name}_test PROPERTIES EXCLUDE_FROM_ALL ON)  # cannot be built, but may be named
    endif()
    # Tests run in the source tree: a relative path keeps the compiler cache good for every checkout.
    target_compile_definitions(${name}_test PRIVATE CHEETAH_SOURCE_DIR=".")
    add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  endif()
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(${name}_test PRIVATE ${ARGN})
endfunction()

# cheetah_fuzzer(MODULE NAME source.cpp): a libFuzzer target NAME_fuzz, only in the fuzz preset. Its seeds are
# tests/fuzz/corpus/NAME, its dictionary (if any) tests/fuzz/NAME.dict; scripts/fuzz.sh finds it by itself.
function(cheetah_fuzzer module name source)
  if(NOT CHEETAH_FUZZ)
    return()
  endif()
  add_executable(${name}_fuzz ${source})
  target_link_libraries(${name}_fuzz PRIVATE cheetah_${module})
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${name}_fuzz)
endfunction()
