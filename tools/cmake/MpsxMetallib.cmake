# Build the kernels for Apple GPUs. mpsx.metal contains their sources, which the driver compiles on first use. If
# Apple's Metal compiler is available (Xcode with the Metal toolchain), also build mpsx.metallib, which needs no
# compilation at run time.
#
#   mpsx_add_metal_library(mpsx_metal_library SOURCES a.metal… INCLUDE_DIRS metal OUTPUT_DIRECTORY dir
#                          [NAME mpsx] [STANDARD metal3.1])
#
# STANDARD is the Metal version of the sources. mpsx_tensor contains the tensor tier, in Metal 4.

# -fno-fast-math: by default, Metal's compiler assumes that no value is NaN or infinite, and approximates exp, log, sin,
# and division. Then isnan() would always be false, softmax's guard for rows of -inf would be dead code, and results
# would differ from the CPU's in the last four bits. The driver sets the same option in MTLCompileOptions.
# -ffp-contract=off: do not contract a * b + c. mpsx.metal uses a pragma for this instead.
set(MPSX_METAL_STANDARD metal3.1)  # the first version with bfloat; requires macOS 14
set(MPSX_METAL_FLAGS -fno-fast-math -ffp-contract=off -Wall -Wextra -Wno-unused-function)

function(mpsx_add_metal_library target)
  cmake_parse_arguments(K "" "OUTPUT_DIRECTORY;NAME;STANDARD" "SOURCES;INCLUDE_DIRS" ${ARGN})
  if(NOT K_NAME)
    set(K_NAME mpsx)
  endif()
  if(NOT K_STANDARD)
    set(K_STANDARD ${MPSX_METAL_STANDARD})
  endif()
  set(include_flags "")
  set(headers "")
  foreach(dir IN LISTS K_INCLUDE_DIRS)
    get_filename_component(dir "${dir}" ABSOLUTE)
    list(APPEND include_flags -I "${dir}")
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${dir}/*.h" "${dir}/*.def")
    list(APPEND headers ${found})
  endforeach()
  file(GLOB tools CONFIGURE_DEPENDS "${MPSX_TRANSLATOR_DIR}/*.py" "${MPSX_TRANSLATOR_DIR}/codegen/*.py"
       "${MPSX_TRANSLATOR_DIR}/passes/*.py")
  set(flat "${K_OUTPUT_DIRECTORY}/${K_NAME}.metal")
  add_custom_command(
    OUTPUT "${flat}"
    COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" flatten ${K_SOURCES} ${include_flags}
            --preprocessor "${CMAKE_CXX_COMPILER}" -o "${flat}"
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    DEPENDS ${K_SOURCES} ${headers} ${tools}
    COMMENT "Flattening kernels" VERBATIM)
  set(files "${flat}")

  # Check that the compiler runs: xcrun finds it even if the separately downloaded Metal toolchain is missing, and old
  # versions reject the standard.
  execute_process(COMMAND xcrun -sdk macosx metal -std=${K_STANDARD} --version
                  OUTPUT_VARIABLE version ERROR_QUIET RESULT_VARIABLE no_metal)
  if(no_metal)
    message(STATUS "mpsx: no compiler for ${K_STANDARD} (xcrun metal); ${K_NAME} is compiled when it is first used")
  else()
    string(REGEX MATCH "^[^\n]*" version "${version}")
    message(STATUS "mpsx: kernels are compiled by ${version}")
    set(airs "")
    foreach(source IN LISTS K_SOURCES)
      get_filename_component(source "${source}" ABSOLUTE)
      file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}" "${source}")
      string(MAKE_C_IDENTIFIER "${name}" name)
      set(air "${CMAKE_CURRENT_BINARY_DIR}/${target}/${name}.air")
      add_custom_command(
        OUTPUT "${air}"
        COMMAND xcrun -sdk macosx metal -std=${K_STANDARD} ${MPSX_METAL_FLAGS}
                -mmacosx-version-min=${CMAKE_OSX_DEPLOYMENT_TARGET} ${include_flags} -c "${source}" -o "${air}"
        DEPENDS "${source}" ${headers}
        COMMENT "Compiling ${name}" VERBATIM)
      list(APPEND airs "${air}")
    endforeach()
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${target}")
    set(metallib "${K_OUTPUT_DIRECTORY}/${K_NAME}.metallib")
    add_custom_command(
      OUTPUT "${metallib}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${K_OUTPUT_DIRECTORY}"
      COMMAND xcrun -sdk macosx metallib ${airs} -o "${metallib}"
      DEPENDS ${airs}
      COMMENT "Linking ${metallib}" VERBATIM)
    list(APPEND files "${metallib}")
  endif()
  add_custom_target(${target} ALL DEPENDS ${files})
endfunction()
