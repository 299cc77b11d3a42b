# SPDX-License-Identifier: MIT
# The standard headers, parsed once for each set of flags: hot (-O3), cold (-O1) and tests (-O1, with GoogleTest).
# Sources still include what they use: Clang builds and the headers test (tests/include_direction.py) run without it.
set(CHEETAH_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <functional>
  <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant>
  <vector>)

# Tests spend their time in the libraries: optimizing the assertions themselves only slows the build.
set(CHEETAH_FLAGS_hot "")
# GCC 12 reports uninitialized values at -O1 where there are none; Clang looks for them in the same sources.
set(CHEETAH_FLAGS_cold "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(CHEETAH_FLAGS_cold "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1;-Wno-maybe-uninitialized>")
endif()
set(CHEETAH_FLAGS_tests "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>"
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-O0>")

set(CHEETAH_HEADERS_hot ${CHEETAH_STANDARD_HEADERS})
set(CHEETAH_HEADERS_cold ${CHEETAH_STANDARD_HEADERS})
set(CHEETAH_HEADERS_tests ${CHEETAH_STANDARD_HEADERS} <gtest/gtest.h> <rapidcheck.h>)

# cheetah_use_precompiled(TARGET KIND): compile TARGET with the flags and the precompiled headers of KIND.
function(cheetah_use_precompiled target kind)
  target_compile_options(${target} PRIVATE ${CHEETAH_FLAGS_${kind}})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  if(NOT TARGET precompiled_${kind})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
    add_library(precompiled_${kind} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
    target_compile_options(precompiled_${kind} PRIVATE ${CHEETAH_FLAGS_${kind}} -fpch-preprocess)
    target_precompile_headers(precompiled_${kind} PRIVATE ${CHEETAH_HEADERS_${kind}})
    if(kind STREQUAL tests)
      target_link_libraries(precompiled_${kind} PRIVATE GTest::gtest)
    endif()
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  target_precompile_headers(${target} REUSE_FROM precompiled_${kind})
endfunction()
