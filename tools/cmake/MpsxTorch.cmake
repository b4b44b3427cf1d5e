# Define the target `mpsx_torch`: the headers (as system headers) and libraries of the installed torch. Torch's own
# CMake package would require the compilers and libraries that torch was built with.
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/../build/installed_torch.py"
  OUTPUT_VARIABLE torch_found OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE torch_failed)
if(torch_failed)
  message(FATAL_ERROR "mpsx: building needs torch in the Python environment of ${Python_EXECUTABLE}")
endif()
list(GET torch_found 0 MPSX_TORCH_VERSION)
list(GET torch_found 1 torch_root)
if(MPSX_TORCH_VERSION VERSION_LESS 2.11 OR MPSX_TORCH_VERSION VERSION_GREATER_EQUAL 2.15)
  message(FATAL_ERROR "mpsx: expected torch 2.11 to 2.14, found ${MPSX_TORCH_VERSION}")
endif()
message(STATUS "mpsx: torch ${MPSX_TORCH_VERSION} in ${torch_root}")

add_library(mpsx_torch INTERFACE)
target_include_directories(mpsx_torch SYSTEM INTERFACE
  "${torch_root}/include" "${torch_root}/include/torch/csrc/api/include")
# Without this definition, some headers include the headers of all operators.
target_compile_definitions(mpsx_torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_directories(mpsx_torch INTERFACE "${torch_root}/lib")
target_link_libraries(mpsx_torch INTERFACE torch_cpu c10)
# Exceptions cross the boundary between torch's libraries and ours, so both need the same libstdc++. With a statically
# linked copy, the first exception would terminate the process.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT APPLE)
  execute_process(
    COMMAND "${CMAKE_CXX_COMPILER}" -print-file-name=libstdc++.so
    OUTPUT_VARIABLE shared_library OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${shared_library}")
    find_library(MPSX_LIBSTDCXX NAMES libstdc++.so.6 REQUIRED)
    target_link_libraries(mpsx_torch INTERFACE "${MPSX_LIBSTDCXX}")
  endif()
endif()
