# find_package(isorb_crm) gives the targets isorb_crm::isorb_crm (shared) and isorb_crm::static:
# reflective memory for C11 (isorb_crm.h) and C++17 (isorb_crm.hpp).
get_filename_component(_isorb_crm_prefix "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
get_filename_component(_isorb_crm_libraries "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
if(NOT TARGET isorb_crm::isorb_crm)
  find_package(Threads REQUIRED)
  add_library(isorb_crm::isorb_crm SHARED IMPORTED)
  set_target_properties(isorb_crm::isorb_crm PROPERTIES
    IMPORTED_LOCATION "${_isorb_crm_libraries}/libisorb_crm.so"
    IMPORTED_SONAME "libisorb_crm.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_isorb_crm_prefix}/include")
  add_library(isorb_crm::static STATIC IMPORTED)
  set_target_properties(isorb_crm::static PROPERTIES
    IMPORTED_LOCATION "${_isorb_crm_libraries}/libisorb_crm.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_isorb_crm_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
unset(_isorb_crm_prefix)
unset(_isorb_crm_libraries)
