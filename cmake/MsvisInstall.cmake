# What an installation holds: the program, the libraries with a CMake package (find_package(msvis), target msvis::msvis), headers, data, scripts.
include(CMakePackageConfigHelpers)

get_property(msvis_rooms GLOBAL PROPERTY MSVIS_ROOMS)
add_library(msvis INTERFACE)
add_library(msvis::msvis ALIAS msvis)
target_link_libraries(msvis INTERFACE ${msvis_rooms})

set(msvis_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/msvis")
install(TARGETS msvis ${msvis_rooms} EXPORT msvisTargets)
install(EXPORT msvisTargets NAMESPACE msvis:: DESTINATION "${msvis_package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/msvisConfig.cmake.in" "${PROJECT_BINARY_DIR}/msvisConfig.cmake"
                              INSTALL_DESTINATION "${msvis_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/msvisConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/msvisConfig.cmake" "${PROJECT_BINARY_DIR}/msvisConfigVersion.cmake" DESTINATION "${msvis_package_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/msvis" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")

if(TARGET msvis-mpi)
  set_target_properties(msvis-mpi msvis-pack PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  install(TARGETS msvis-mpi msvis-pack)
endif()
if(EXISTS "${PROJECT_SOURCE_DIR}/scripts/msprobe")
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/scripts/msprobe" DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
file(GLOB msvis_slurm_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/scripts/slurm/*")
if(msvis_slurm_files)
  install(PROGRAMS ${msvis_slurm_files} DESTINATION "${CMAKE_INSTALL_DATADIR}/msvis/slurm")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/msvis")
