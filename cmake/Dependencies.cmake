# The Debian libraries (scripts/packages.txt) as imported targets, and CUDA where there is one.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)

find_path(FMT_INCLUDE fmt/format-inl.h REQUIRED)  # its body is compiled in base/format.cpp

function(cheetah_find_library name library header)
  find_path(${name}_INCLUDE ${header} REQUIRED)
  if(CHEETAH_PORTABLE AND EXISTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/lib${library}.a)
    set(${name}_LIBRARY /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/lib${library}.a)
  else()
    find_library(${name}_LIBRARY ${library} REQUIRED)
  endif()
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name} SYSTEM INTERFACE ${${name}_INCLUDE})
  target_link_libraries(${name} INTERFACE ${${name}_LIBRARY})
endfunction()

cheetah_find_library(hwy hwy hwy/highway.h)
# AVX3_DL brings the integer dot products (VNNI); SSSE3 saves nobody today and costs a tenth of the kernels' build.
if(CHEETAH_SANITIZE)
  # Sanitized kernels take long to build: the oldest and the two newest instruction sets stand for all.
  set(CHEETAH_HWY_DISABLED "(HWY_SSSE3|HWY_SSE4|HWY_AVX3)")
else()
  set(CHEETAH_HWY_DISABLED HWY_SSSE3)
endif()
target_compile_definitions(hwy INTERFACE HWY_WANT_AVX3_DL=1 "HWY_DISABLED_TARGETS=${CHEETAH_HWY_DISABLED}")
cheetah_find_library(pcre2 pcre2-8 pcre2.h)
target_compile_definitions(pcre2 INTERFACE PCRE2_CODE_UNIT_WIDTH=8)
cheetah_find_library(utf8proc utf8proc utf8proc.h)
target_compile_definitions(utf8proc INTERFACE $<$<BOOL:${CHEETAH_PORTABLE}>:UTF8PROC_STATIC>)
find_package(Boost 1.74 REQUIRED)  # headers only: Asio and Beast
if(CHEETAH_PORTABLE)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(OpenSSL 3 REQUIRED)
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)

# CUDA is found by itself and optional. The version is all the code asks for until device code arrives.
set(CHEETAH_CUDA_VERSION "")
if(NOT CHEETAH_CUDA STREQUAL "OFF")
  if(CHEETAH_CUDA STREQUAL "ON")
    find_package(CUDAToolkit REQUIRED)
  else()
    find_package(CUDAToolkit QUIET)
  endif()
  if(CUDAToolkit_FOUND)
    set(CHEETAH_CUDA_VERSION ${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR})
  endif()
endif()
