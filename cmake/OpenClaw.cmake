# Helpers that keep the folders' CMakeLists.txt to lists of files.

# Every include reads openclaw/<folder>/x.h; in the build tree that name is a link to the sources.
set(OC_INCLUDE_ROOT ${PROJECT_BINARY_DIR}/include)
function(oc_link_folder folder)
  file(MAKE_DIRECTORY ${OC_INCLUDE_ROOT}/openclaw)
  if(NOT EXISTS ${OC_INCLUDE_ROOT}/openclaw/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${OC_INCLUDE_ROOT}/openclaw/${folder} SYMBOLIC)
  endif()
endfunction()

# oc_library(NAME SOURCES ... [DEPS public...] [PRIVATE_DEPS ...] [MODULE]): the shared library
# openclaw_NAME, which others link as OpenClaw::NAME. MODULE: nobody links it, it is opened when it is
# wanted (openclaw_NAME.so beside the libraries).
function(oc_library name)
  cmake_parse_arguments(ARG "MODULE" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_MODULE)
    add_library(openclaw_${name} MODULE ${ARG_SOURCES})
    set_target_properties(openclaw_${name} PROPERTIES PREFIX "")
    target_link_libraries(openclaw_${name} PRIVATE ${ARG_DEPS} ${ARG_PRIVATE_DEPS} oc_warnings)
    target_include_directories(openclaw_${name} PRIVATE ${OC_INCLUDE_ROOT})
    install(TARGETS openclaw_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    return()
  endif()
  add_library(openclaw_${name} ${ARG_SOURCES})
  add_library(OpenClaw::${name} ALIAS openclaw_${name})
  set_target_properties(openclaw_${name} PROPERTIES EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(openclaw_${name} PUBLIC
    $<BUILD_INTERFACE:${OC_INCLUDE_ROOT}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(openclaw_${name} PUBLIC cxx_std_20)
  target_link_libraries(openclaw_${name} PUBLIC ${ARG_DEPS}
    PRIVATE ${ARG_PRIVATE_DEPS} $<BUILD_INTERFACE:oc_warnings>)
  install(TARGETS openclaw_${name} EXPORT OpenClawTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set_property(GLOBAL APPEND PROPERTY OC_LIBRARIES ${name})
endfunction()

# oc_public_headers(OUT FOLDER): the headers of a folder that users may include, relative to the
# project. Those of leaves (devices/<x>/, comm/<x>/; devices/host/ is none) and of the command are
# not among them.
function(oc_public_headers out folder)
  set(headers)
  if(folder STREQUAL "devices" OR folder STREQUAL "comm")
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
      ${PROJECT_SOURCE_DIR}/${folder}/*.h ${PROJECT_SOURCE_DIR}/${folder}/host/*.h)
  elseif(NOT folder STREQUAL "launcher")
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
      ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  endif()
  set(${out} ${headers} PARENT_SCOPE)
endfunction()

# Installs the public headers of the folders, the umbrella header, the package's files, and defines
# OpenClaw::openclaw, which links all libraries but the command's. Call once, after all libraries.
function(oc_install_package)
  include(CMakePackageConfigHelpers)
  get_property(libraries GLOBAL PROPERTY OC_LIBRARIES)
  list(REMOVE_ITEM libraries launcher launcher_config)
  list(TRANSFORM libraries PREPEND openclaw_)
  add_library(openclaw INTERFACE)
  add_library(OpenClaw::openclaw ALIAS openclaw)
  target_link_libraries(openclaw INTERFACE ${libraries})
  install(TARGETS openclaw EXPORT OpenClawTargets)

  set(folders ${ARGN})
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    oc_public_headers(headers ${folder})
    foreach(header ${headers})
      if(header STREQUAL "runtime/openclaw.h")
        install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/openclaw)
      else()
        get_filename_component(dir ${header} DIRECTORY)
        install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/openclaw/${dir})
      endif()
    endforeach()
  endforeach()
  if(NOT EXISTS ${OC_INCLUDE_ROOT}/openclaw/openclaw.h)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/runtime/openclaw.h ${OC_INCLUDE_ROOT}/openclaw/openclaw.h
      SYMBOLIC)
  endif()

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/OpenClaw)
  install(EXPORT OpenClawTargets NAMESPACE OpenClaw:: DESTINATION ${package_dir})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/OpenClawConfig.cmake.in
    ${PROJECT_BINARY_DIR}/OpenClawConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/OpenClawConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/OpenClawConfig.cmake
    ${PROJECT_BINARY_DIR}/OpenClawConfigVersion.cmake DESTINATION ${package_dir})
endfunction()

# oc_test(NAME SOURCES ... DEPS ... [LABELS ...] [TIMEOUT seconds] [RUN_SERIAL]): one GoogleTest
# program. It is one CTest entry: the cases of one program share its start-up, which is most of a
# small test's time. RUN_SERIAL: it needs all cores for itself. Labels with a meaning:
#   long        not in the default suite (scripts/test.sh --long runs it)
#   tsan        clean under the thread sanitizer: reference kernels, in-process transport
#   short       in the short part of scripts/sanitize.sh, which the default suite runs
#   nosanitize  says nothing under a sanitizer (speed, memory of the process)
# The target tests_<label> builds all tests with that label, tests_tsan_short those with both.
function(oc_test name)
  cmake_parse_arguments(ARG "RUN_SERIAL" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} oc_warnings GTest::gmock GTest::gtest
    GTest::gtest_main)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(OC_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    RUN_SERIAL ${ARG_RUN_SERIAL})
  set(groups ${ARG_LABELS})
  if("tsan" IN_LIST ARG_LABELS AND "short" IN_LIST ARG_LABELS)
    list(APPEND groups tsan_short)
  endif()
  foreach(group ${groups})
    if(NOT TARGET tests_${group})
      add_custom_target(tests_${group})
    endif()
    add_dependencies(tests_${group} ${name})
  endforeach()
endfunction()
