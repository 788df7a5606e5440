# Compiler flags: one place, every target.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_C_VISIBILITY_PRESET hidden)

option(SAMARA_VALIDATE "run the validators after every change" OFF)
set(SAMARA_SANITIZE "" CACHE STRING "value of -fsanitize=")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_compile_definitions(_GNU_SOURCE)
add_compile_options(
  -Werror -Wall -Wextra -Wshadow -Wundef -Wvla -Wpointer-arith -Wwrite-strings
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wold-style-definition>
  -Wno-missing-field-initializers # what a table leaves out is zero, on purpose
  -fno-omit-frame-pointer -g)
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_DEBUG "-O1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1")
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-Wthread-safety>)
endif()
if(SAMARA_VALIDATE)
  add_compile_definitions(SM_VALIDATE=1)
else()
  add_compile_definitions(SM_VALIDATE=0)
endif()
if(SAMARA_SANITIZE)
  add_compile_options(-fsanitize=${SAMARA_SANITIZE})
  add_link_options(-fsanitize=${SAMARA_SANITIZE})
  if(SAMARA_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(SAMARA_SANITIZE MATCHES "thread")
    add_compile_definitions(SM_TSAN=1)
  endif()
  if(SAMARA_SANITIZE MATCHES "address")
    add_compile_definitions(SM_ASAN=1)
  endif()
endif()
if(NOT SAMARA_SANITIZE MATCHES "thread")
  add_compile_definitions(SM_TSAN=0)
endif()
if(NOT SAMARA_SANITIZE MATCHES "address")
  add_compile_definitions(SM_ASAN=0)
endif()
