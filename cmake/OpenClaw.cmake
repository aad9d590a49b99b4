# Helpers that keep the folders' CMakeLists.txt to lists of files.

# Every include reads openclaw/<folder>/x.h; in the build tree that name is a link to the sources.
set(OC_INCLUDE_ROOT ${PROJECT_BINARY_DIR}/include)
function(oc_link_folder folder)
  file(MAKE_DIRECTORY ${OC_INCLUDE_ROOT}/openclaw)
  if(NOT EXISTS ${OC_INCLUDE_ROOT}/openclaw/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${OC_INCLUDE_ROOT}/openclaw/${folder} SYMBOLIC)
  endif()
endfunction()

# oc_library(NAME SOURCES ... [DEPS public...] [PRIVATE_DEPS ...]): the shared library openclaw_NAME,
# which others link as OpenClaw::NAME.
function(oc_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(openclaw_${name} ${ARG_SOURCES})
  add_library(OpenClaw::${name} ALIAS openclaw_${name})
  set_target_properties(openclaw_${name} PROPERTIES EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(openclaw_${name} PUBLIC
    $<BUILD_INTERFACE:${OC_INCLUDE_ROOT}> $<INSTALL_INTERFACE:include>)
  target_compile_features(openclaw_${name} PUBLIC cxx_std_20)
  target_link_libraries(openclaw_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS} oc_warnings)
  install(TARGETS openclaw_${name} EXPORT OpenClawTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# oc_test(NAME SOURCES ... DEPS ... [LABELS ...] [TIMEOUT seconds]): one GoogleTest program. It is
# one CTest entry: the cases of one program share its start-up, which is most of a small test's time.
function(oc_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} oc_warnings GTest::gmock GTest::gtest
    GTest::gtest_main)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
