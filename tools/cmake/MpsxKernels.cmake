# Build kernel libraries from .metal files. Each file is translated to C++ once and compiled for every ISA. The result
# is libmpsx_kernels_<isa>.so (.dylib on macOS), which exports mpsx_kernel_table (src/metal_stdlib/kernel_abi.h).
#
# If ISAS contains `cuda`, also build mpsx.ptx with the same kernels for NVIDIA GPUs.
#
#   mpsx_add_kernels(mpsx_kernels SOURCES a.metal… INCLUDE_DIRS metal OUTPUT_DIRECTORY dir [ISAS baseline;x86-64-v3…])
#
# The target property MPSX_KERNEL_FILES lists the libraries.

set(MPSX_TOOLS_DIR "${CMAKE_CURRENT_LIST_DIR}/..")
get_filename_component(MPSX_TOOLS_DIR "${MPSX_TOOLS_DIR}" ABSOLUTE)
set(MPSX_TRANSLATOR_DIR "${MPSX_TOOLS_DIR}/../python/mpsx/msl")
get_filename_component(MPSX_TRANSLATOR_DIR "${MPSX_TRANSLATOR_DIR}" ABSOLUTE)
get_filename_component(MPSX_STDLIB_DIR "${MPSX_TOOLS_DIR}/../src/metal_stdlib" ABSOLUTE)

# Find the kernel compiler with python/mpsx/msl/compiler.py. Sets MPSX_KERNEL_COMMAND (a list), MPSX_KERNEL_COMPILER (a
# description), MPSX_KERNEL_PREPROCESSOR (a string), and MPSX_KERNEL_ISAS.
function(mpsx_find_kernel_compiler)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" compiler
    OUTPUT_VARIABLE answer ERROR_VARIABLE message RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "mpsx: ${message}")
  endif()
  string(REGEX MATCH "^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)" answer "${answer}")
  set(command "${CMAKE_MATCH_1}")
  set(MPSX_KERNEL_COMPILER "${CMAKE_MATCH_2}" PARENT_SCOPE)
  set(MPSX_KERNEL_PREPROCESSOR "${CMAKE_MATCH_3}" PARENT_SCOPE)
  set(MPSX_KERNEL_ISAS "${CMAKE_MATCH_4}" PARENT_SCOPE)
  if(command MATCHES "zig;c\\+\\+$")
    # ccache needs a single program, so wrap the command in a script. Keep zig's cache in the build directory.
    list(JOIN command "' '" quoted)
    set(command "${CMAKE_BINARY_DIR}/mpsx-kernel-c++")
    file(CONFIGURE OUTPUT "${command}" CONTENT [[
#!/bin/sh
ZIG_GLOBAL_CACHE_DIR='@CMAKE_BINARY_DIR@/zig-cache' ZIG_LOCAL_CACHE_DIR='@CMAKE_BINARY_DIR@/zig-cache'
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
exec '@quoted@' "$@"
]] @ONLY)
    file(CHMOD "${command}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                        WORLD_EXECUTE)
  endif()
  set(MPSX_KERNEL_COMMAND "${command}" PARENT_SCOPE)
  # On Linux, call clang without zig's driver, and precompile the Metal standard library. This saves 20% of the time.
  set(clang "")
  if(NOT APPLE AND command STREQUAL "${CMAKE_BINARY_DIR}/mpsx-kernel-c++")
    string(REGEX REPLACE " 'c\\+\\+'$" " 'clang'" quoted "'${quoted}'")
    set(clang "${CMAKE_BINARY_DIR}/mpsx-kernel-clang")
    file(CONFIGURE OUTPUT "${clang}" CONTENT "#!/bin/sh\nexec @quoted@ \"$@\"\n" @ONLY)
    file(CHMOD "${clang}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                      WORLD_EXECUTE)
  endif()
  set(MPSX_KERNEL_CLANG "${clang}" PARENT_SCOPE)
endfunction()

# Split each source into one C++ file per 100 kernels, so that rebuilding a single source uses all cores. Each
# additional file costs a third of a second.
function(mpsx_count_shards sources include_flags out)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" list --count ${sources} ${include_flags}
            --preprocessor "${MPSX_KERNEL_PREPROCESSOR}"
    OUTPUT_VARIABLE counts ERROR_VARIABLE message RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(WARNING "mpsx: ${message}")  # the build fails with this message
  endif()
  set(result "")
  string(REPLACE "\n" ";" counts "${counts}")
  foreach(count IN LISTS counts)
    math(EXPR shards "(${count} + 99) / 100")
    if(shards LESS 1)
      set(shards 1)
    elseif(shards GREATER 4)
      set(shards 4)
    endif()
    list(APPEND result ${shards})
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# Translate all sources of mpsx_add_kernels in the given translator mode. Sets `work` and `translated`.
macro(mpsx_translate_kernels mode)
  set(work "${CMAKE_CURRENT_BINARY_DIR}/${target}/${mode}")
  set(translated "")
  set(counts ${shard_counts})
  foreach(source IN LISTS K_SOURCES)
    set(shards 1)
    if(counts)
      list(POP_FRONT counts shards)
    endif()
    if("${mode}" STREQUAL "wide" AND source MATCHES "_tensor\\.metal$")
      continue()  # CPU libraries do not contain the tensor tier
    endif()
    get_filename_component(source "${source}" ABSOLUTE)
    file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}" "${source}")
    string(REGEX REPLACE "\\.metal$" "" name "${name}")
    string(MAKE_C_IDENTIFIER "${name}" name)
    set(outputs "${work}/${name}.cpp")
    if(shards GREATER 1)
      math(EXPR last "${shards} - 1")
      set(outputs "")
      foreach(i RANGE ${last})
        list(APPEND outputs "${work}/${name}.${i}.cpp")
      endforeach()
    endif()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" translate "${source}" -o "${work}/${name}.cpp"
              --name ${name} --root "${CMAKE_SOURCE_DIR}" --shards ${shards} ${include_flags}
              --mode ${mode} --depfile "${work}/${name}.d"
              --preprocessor "${MPSX_KERNEL_PREPROCESSOR}"
      DEPENDS "${source}" ${tools} "${overlays}"
      DEPFILE "${work}/${name}.d"
      COMMENT "Translating ${name} (${mode})" VERBATIM)
    list(APPEND translated ${outputs})
  endforeach()
  set(index "${work}/index.cpp")
  add_custom_command(
    OUTPUT "${index}"
    COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" index ${translated} -o "${index}"
    DEPENDS ${translated} ${tools}
    COMMENT "Indexing kernels" VERBATIM)
endmacro()

# Compile the translated sources to libmpsx_kernels_<isa>.so.
macro(mpsx_compile_kernels isa)
  execute_process(COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" compiler --isa ${isa}
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE)
  foreach(family elementwise other)
    execute_process(COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" compiler --source ${family}_
                    OUTPUT_VARIABLE ${family}_flags OUTPUT_STRIP_TRAILING_WHITESPACE)
  endforeach()
  if(APPLE)
    list(APPEND flags -mmacosx-version-min=${CMAKE_OSX_DEPLOYMENT_TARGET})
  endif()
  file(MAKE_DIRECTORY "${work}/${isa}")
  set(command ${MPSX_KERNEL_COMMAND})
  set(header "")
  if(MPSX_KERNEL_CLANG)
    set(command "${MPSX_KERNEL_CLANG}")
    list(TRANSFORM flags REPLACE "^-march=x86_64_" "-march=x86-64-")  # clang and zig spell ISA names differently
    set(header "${work}/${isa}/msl.pch")
    file(GLOB library_headers CONFIGURE_DEPENDS "${MPSX_STDLIB_DIR}/*.h")
    add_custom_command(
      OUTPUT "${header}"
      COMMAND ${command} ${flags} -Xclang -fno-pch-timestamp -x c++-header
              "${MPSX_STDLIB_DIR}/msl.h" -o "${header}"
      DEPENDS ${library_headers}
      COMMENT "Compiling Metal's standard library for ${isa}" VERBATIM)
    list(APPEND flags -include-pch "${header}")
  endif()
  set(objects "")
  foreach(cpp IN LISTS translated index)
    get_filename_component(stem "${cpp}" NAME)
    set(object "${work}/${isa}/${stem}.o")
    set(own ${other_flags})
    if(stem STREQUAL "index.cpp")
      set(own "-DMPSX_KERNEL_ISA=\"${isa}\"" "-DMPSX_KERNEL_COMPILER=\"${MPSX_KERNEL_COMPILER}\"")
    elseif(stem MATCHES "elementwise_")
      set(own ${elementwise_flags})
    endif()
    add_custom_command(
      OUTPUT "${object}"
      COMMAND ${launcher} ${command} ${flags} ${own} -MD -MF "${object}.d" -MT "${object}" -c "${cpp}"
              -o "${object}"
      DEPENDS "${cpp}" ${header}
      DEPFILE "${object}.d"
      COMMENT "Compiling ${stem} for ${isa}" VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set(library "${K_OUTPUT_DIRECTORY}/libmpsx_kernels_${isa}.so")
  # Use the system's linker. The objects only need functions such as memcpy and libgcc's half conversions.
  set(link -shared -nostdlib -Wl,--gc-sections -Wl,-z,defs)
  set(system -lc -lgcc)
  if(APPLE)
    set(library "${K_OUTPUT_DIRECTORY}/libmpsx_kernels_${isa}.dylib")
    set(link -dynamiclib -mmacosx-version-min=${CMAKE_OSX_DEPLOYMENT_TARGET} -Wl,-dead_strip
             -install_name "@rpath/libmpsx_kernels_${isa}.dylib")
    set(system "")
  endif()
  add_custom_command(
    OUTPUT "${library}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${K_OUTPUT_DIRECTORY}"
    COMMAND "${CMAKE_CXX_COMPILER}" ${link} -o "${library}" ${objects} ${system}
    DEPENDS ${objects}
    COMMENT "Linking ${library}" VERBATIM)
  list(APPEND libraries "${library}")
endmacro()

# Compile the most recently translated kernels to mpsx.ptx. NVIDIA's driver compiles each kernel on first use.
macro(mpsx_compile_ptx)
  execute_process(COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" compiler --isa cuda
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE)
  foreach(target sm_80 sm_90a)
    execute_process(COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" compiler --source x_tensor
                            --target ${target}
                    OUTPUT_VARIABLE ${target}_flags OUTPUT_STRIP_TRAILING_WHITESPACE)
  endforeach()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${MPSX_STDLIB_DIR}/*.h")
  set(texts "")
  foreach(cpp IN LISTS translated)
    get_filename_component(stem "${cpp}" NAME)
    set(variants "${cpp}.ptx")
    if(stem MATCHES "_tensor\\.")
      set(variants "${cpp}.sm_80.ptx" "${cpp}.sm_90a.ptx")
    endif()
    foreach(text IN LISTS variants)
      set(own "")
      if(text MATCHES "\\.(sm_[0-9a-z]+)\\.ptx$")
        set(own ${${CMAKE_MATCH_1}_flags})
      endif()
      add_custom_command(
        OUTPUT "${text}"
        COMMAND ${launcher} ${MPSX_KERNEL_COMMAND} ${flags} ${own} -S "${cpp}" -o "${text}"
        DEPENDS "${cpp}" ${headers}  # zig does not write a depfile for -S
        COMMENT "Compiling ${stem} to PTX" VERBATIM)
      list(APPEND texts "${text}")
    endforeach()
  endforeach()
  set(library "${K_OUTPUT_DIRECTORY}/mpsx.ptx")
  add_custom_command(
    OUTPUT "${library}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${K_OUTPUT_DIRECTORY}"
    COMMAND "${Python_EXECUTABLE}" "${MPSX_TOOLS_DIR}/msl.py" pack ${texts} -o "${library}"
            --compiler "${MPSX_KERNEL_COMPILER}"
    DEPENDS ${texts} ${translated} ${tools}
    COMMENT "Packing ${library}" VERBATIM)
  list(APPEND libraries "${library}")
endmacro()

function(mpsx_add_kernels target)
  cmake_parse_arguments(K "" "OUTPUT_DIRECTORY" "SOURCES;INCLUDE_DIRS;ISAS" ${ARGN})
  mpsx_find_kernel_compiler()
  message(STATUS "mpsx: kernels are compiled by ${MPSX_KERNEL_COMPILER}")
  if(NOT K_ISAS)
    set(K_ISAS ${MPSX_KERNEL_ISAS})
  endif()
  find_program(MPSX_CCACHE ccache)
  set(launcher "")
  if(MPSX_CCACHE)
    set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
                 CCACHE_SLOPPINESS=pch_defines,time_macros "CCACHE_COMPILERCHECK=string:${MPSX_KERNEL_COMPILER}"
                 CCACHE_COMPILERTYPE=auto "${MPSX_CCACHE}")
    if(MPSX_KERNEL_COMPILER MATCHES "clang")
      list(TRANSFORM launcher REPLACE "COMPILERTYPE=auto" "COMPILERTYPE=clang")
    endif()
  endif()
  set(include_flags "")
  foreach(dir IN LISTS K_INCLUDE_DIRS)
    get_filename_component(dir "${dir}" ABSOLUTE)
    list(APPEND include_flags -I "${dir}")
  endforeach()
  file(GLOB tools CONFIGURE_DEPENDS "${MPSX_TRANSLATOR_DIR}/*.py" "${MPSX_TRANSLATOR_DIR}/codegen/*.py"
       "${MPSX_TRANSLATOR_DIR}/passes/*.py")
  # This file lists all overlays. Each source also depends on the contents of the overlays that it uses.
  set(overlays "${CMAKE_CURRENT_BINARY_DIR}/${target}/overlays.txt")
  file(GLOB overlay_files CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" metal/*/host/*.h)
  file(CONFIGURE OUTPUT "${overlays}" CONTENT "${overlay_files}\n")
  set(libraries "")
  mpsx_count_shards("${K_SOURCES}" "${include_flags}" shard_counts)
  list(REMOVE_ITEM K_ISAS simt)  # simt is built on first use
  mpsx_translate_kernels(wide)
  foreach(isa IN LISTS K_ISAS)
    if(NOT isa STREQUAL "cuda")
      mpsx_compile_kernels(${isa})
    endif()
  endforeach()
  if("cuda" IN_LIST K_ISAS)
    mpsx_translate_kernels(cuda)
    mpsx_compile_ptx()
  endif()
  add_custom_target(${target} ALL DEPENDS ${libraries})
  set_target_properties(${target} PROPERTIES MPSX_KERNEL_FILES "${libraries}")
endfunction()
