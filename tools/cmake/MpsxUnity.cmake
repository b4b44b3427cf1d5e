# Compile the files of each folder in groups (CMake's unity build). This parses torch's headers and instantiates their
# templates only once per group. Files in the same folder must not define the same private names.
#
#   mpsx_compile_together(6 src/ops/norm src/ops/pool)
function(mpsx_compile_together count)
  foreach(folder IN LISTS ARGN)
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
    string(MAKE_C_IDENTIFIER "${folder}" name)
    set(index 0)
    foreach(source IN LISTS sources)
      math(EXPR group "${index} / ${count}")
      math(EXPR index "${index} + 1")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${name}_${group}")
    endforeach()
  endforeach()
endfunction()

file(GLOB families RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" LIST_DIRECTORIES true CONFIGURE_DEPENDS src/ops/*)
list(FILTER families EXCLUDE REGEX "\\.")
mpsx_compile_together(10 src/ops ${families} src/backend src/runtime src/vendor/cpu src/driver/host
  src/driver/host/simt src/driver/cuda)
