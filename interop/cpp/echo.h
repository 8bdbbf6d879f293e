// The echo rule of interop.idl (result = a, c = old b, b = a), once for each shape of argument in
// the C++ mapping.
#ifndef INTEROP_ECHO_H
#define INTEROP_ECHO_H

#define ECHO_VALUE(T, NAME)                        \
  T echo_##NAME(T a, T& b, T& c) override {        \
    c = b;                                         \
    b = a;                                         \
    return a;                                      \
  }
#define ECHO_FIXED_LENGTH(T, NAME)                 \
  T echo_##NAME(const T& a, T& b, T& c) override { \
    c = b;                                         \
    b = a;                                         \
    return a;                                      \
  }
#define ECHO_VARIABLE(T, NAME) ECHO_VARIABLE_OUT(T, NAME, T##_out)
#define ECHO_VARIABLE_OUT(T, NAME, OUT)            \
  T* echo_##NAME(const T& a, T& b, OUT c) override { \
    c = new T(b);                                  \
    b = a;                                         \
    return new T(a);                               \
  }
#define ECHO_STRING(NAME, OUT)                     \
  char* echo_##NAME(const char* a, char*& b, OUT c) override { \
    c = b;                                         \
    b = CORBA::string_dup(a);                      \
    return CORBA::string_dup(a);                   \
  }
#define ECHO_WSTRING(NAME, OUT)                    \
  CORBA::WChar* echo_##NAME(const CORBA::WChar* a, CORBA::WChar*& b, OUT c) override { \
    c = b;                                         \
    b = CORBA::wstring_dup(a);                     \
    return CORBA::wstring_dup(a);                  \
  }
#define ECHO_FIXED_ARRAY(T, NAME)                  \
  T##_slice* echo_##NAME(const T a, T b, T c) override { \
    T##_copy(c, b);                                \
    T##_copy(b, a);                                \
    return T##_dup(a);                             \
  }
#define ECHO_VARIABLE_ARRAY(T, NAME)               \
  T##_slice* echo_##NAME(const T a, T b, T##_out c) override { \
    c = T##_dup(b);                                \
    T##_copy(b, a);                                \
    return T##_dup(a);                             \
  }
// References, TypeCodes: counted, nil allowed.
#define ECHO_COUNTED(PTR, NAME, OUT, DUPLICATE)    \
  PTR echo_##NAME(PTR a, PTR& b, OUT c) override { \
    c = b;                                         \
    b = DUPLICATE(a);                              \
    return DUPLICATE(a);                           \
  }

#endif
