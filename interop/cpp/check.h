// How the client compares and reports. A failed check throws Failure; the case runner turns it into
// a FAIL line.
#ifndef INTEROP_CHECK_H
#define INTEROP_CHECK_H

#include <cstring>
#include <cwchar>
#include <memory>
#include <sstream>

#include "common.h"

struct Failure {
  std::string reason;
};
struct Skip {
  std::string reason;
};

#define EXPECT(CONDITION)                                                     \
  do {                                                                        \
    if (!(CONDITION)) {                                                       \
      std::ostringstream text_;                                               \
      text_ << #CONDITION << " is false (" << __FILE__ << ":" << __LINE__ << ")"; \
      throw Failure{text_.str()};                                             \
    }                                                                         \
  } while (0)

// An exception that must come. `CHECKS` sees it as `e`.
#define EXPECT_THROW(EXPRESSION, EXCEPTION, CHECKS)                           \
  do {                                                                        \
    bool thrown_ = false;                                                     \
    try {                                                                     \
      EXPRESSION;                                                             \
    } catch (const EXCEPTION& e) {                                            \
      (void)e;                                                                \
      thrown_ = true;                                                         \
      CHECKS;                                                                 \
    }                                                                         \
    if (!thrown_) throw Failure{#EXPRESSION " did not raise " #EXCEPTION};    \
  } while (0)

// The CDR form of a value: equal values have equal bytes, a NaN included, and a difference is seen
// in any member.
inline std::string buffer_of(cdrMemoryStream& s) { return std::string((const char*)s.bufPtr(), s.bufSize()); }

template <class T>
std::string bytes(const T& value) {
  cdrMemoryStream s((CORBA::ULong)1024, true);
  value >>= s;
  return buffer_of(s);
}
#define BYTES_OF_BASIC(T) \
  inline std::string bytes(const T& v) { return std::string((const char*)&v, sizeof v); }
BYTES_OF_BASIC(CORBA::Boolean)
BYTES_OF_BASIC(CORBA::Octet)  // and Char, which is the same type here
BYTES_OF_BASIC(CORBA::Short)
BYTES_OF_BASIC(CORBA::UShort)
BYTES_OF_BASIC(CORBA::Long)
BYTES_OF_BASIC(CORBA::ULong)
BYTES_OF_BASIC(CORBA::LongLong)
BYTES_OF_BASIC(CORBA::ULongLong)
BYTES_OF_BASIC(CORBA::Float)
BYTES_OF_BASIC(CORBA::Double)
BYTES_OF_BASIC(CORBA::WChar)
#undef BYTES_OF_BASIC
// Ten octets carry an x87 value, the rest is padding.
inline std::string bytes(const CORBA::LongDouble& v) { return std::string((const char*)&v, 10); }

// The CDR form of a TypeCode holds padding that differs from call to call, and that of a reference
// depends on the ORB that wrote it last. So equal ones get equal tokens. An Any is a token of its
// type and its value.
std::string bytes(CORBA::TypeCode_ptr type);
std::string bytes(CORBA::Object_ptr object);
std::string bytes(const CORBA::Any& any);
std::string bytes(const Interop::Anys& anys);
std::string bytes(const Interop::WithAny& value);

inline std::string hex(const std::string& octets) {
  std::string text;
  for (unsigned char c : octets.substr(0, 48)) {
    char digits[4];
    snprintf(digits, sizeof digits, "%02x ", c);
    text += digits;
  }
  return text + (octets.size() > 48 ? "..." : "");
}

inline void same(const char* operation, const char* what, size_t index, const std::string& got, const std::string& want) {
  if (got == want) return;
  std::ostringstream text;
  text << operation << " value " << index << ": " << what << " is " << hex(got) << "instead of " << hex(want);
  throw Failure{text.str()};
}

#define SAME_THREE(OP, I, R, B, C, WANT_A, WANT_B) \
  same(OP, "result", I, R, WANT_A);                \
  same(OP, "inout", I, B, WANT_A);                 \
  same(OP, "out", I, C, WANT_B);

// Each checks the echo rule for all neighbours in a list of values. Assignments instead of copies:
// a copy of omniORB's fixed<d,s> forgets d and s.
#define CHECK_PLAIN(OBJECT, OP, T, ...)                                        \
  do {                                                                         \
    std::vector<T> values_ = __VA_ARGS__;                                      \
    for (size_t i = 0; i < values_.size(); i++) {                              \
      T a_ = T(), old_ = T(), b_ = T(), c_ = T(), r_ = T();                    \
      a_ = values_[i], old_ = values_[(i + 1) % values_.size()], b_ = old_;    \
      r_ = (OBJECT)->OP(a_, b_, c_);                                           \
      SAME_THREE(#OP, i, bytes(r_), bytes(b_), bytes(c_), bytes(a_), bytes(old_)) \
    }                                                                          \
  } while (0)
#define CHECK_VARIABLE(OBJECT, OP, T, ...)                                     \
  do {                                                                         \
    std::vector<T> values_ = __VA_ARGS__;                                      \
    for (size_t i = 0; i < values_.size(); i++) {                              \
      const T &a_ = values_[i], &old_ = values_[(i + 1) % values_.size()];     \
      T b_ = old_;                                                             \
      T* c_raw_ = nullptr;                                                     \
      std::unique_ptr<T> r_((OBJECT)->OP(a_, b_, c_raw_));                     \
      std::unique_ptr<T> c_(c_raw_);                                           \
      SAME_THREE(#OP, i, bytes(*r_), bytes(b_), bytes(*c_), bytes(a_), bytes(old_)) \
    }                                                                          \
  } while (0)
#define CHECK_STRING(OBJECT, OP, ...)                                          \
  do {                                                                         \
    std::vector<std::string> values_ = __VA_ARGS__;                            \
    for (size_t i = 0; i < values_.size(); i++) {                              \
      const std::string &a_ = values_[i], &old_ = values_[(i + 1) % values_.size()]; \
      CORBA::String_var b_ = CORBA::string_dup(old_.c_str()), c_;              \
      CORBA::String_var r_ = (OBJECT)->OP(a_.c_str(), b_.inout(), c_.out());   \
      SAME_THREE(#OP, i, r_.in(), b_.in(), c_.in(), a_, old_)                  \
    }                                                                          \
  } while (0)
inline std::string wide_bytes(const CORBA::WChar* text) {
  return std::string((const char*)text, wcslen(text) * sizeof(CORBA::WChar));
}
#define CHECK_WSTRING(OBJECT, OP, ...)                                         \
  do {                                                                         \
    std::vector<std::wstring> values_ = __VA_ARGS__;                           \
    for (size_t i = 0; i < values_.size(); i++) {                              \
      const std::wstring &a_ = values_[i], &old_ = values_[(i + 1) % values_.size()]; \
      CORBA::WString_var b_ = CORBA::wstring_dup(old_.c_str()), c_;            \
      CORBA::WString_var r_ = (OBJECT)->OP(a_.c_str(), b_.inout(), c_.out());  \
      SAME_THREE(#OP, i, wide_bytes(r_), wide_bytes(b_), wide_bytes(c_), wide_bytes(a_.c_str()), wide_bytes(old_.c_str())) \
    }                                                                          \
  } while (0)
// Arrays: an array in an Any has a CDR form.
#define ARRAY_BYTES(T, SLICE) array_bytes([&](CORBA::Any& any_) { any_ <<= T##_forany((T##_slice*)(SLICE)); })
template <class Insert>
std::string array_bytes(Insert insert) {
  CORBA::Any any;
  insert(any);
  return bytes(any);
}
#define CHECK_FIXED_ARRAY(OBJECT, OP, T, ...)                                 \
  do {                                                                         \
    for (int i = 0; i < 3; i++) {                                              \
      T a_, old_, b_, c_;                                                      \
      auto fill_ = __VA_ARGS__;                                                \
      fill_(a_, i), fill_(old_, i + 1), fill_(b_, i + 1);                      \
      T##_var r_ = (OBJECT)->OP(a_, b_, c_);                                   \
      SAME_THREE(#OP, i, ARRAY_BYTES(T, r_.in()), ARRAY_BYTES(T, b_), ARRAY_BYTES(T, c_), ARRAY_BYTES(T, a_), ARRAY_BYTES(T, old_)) \
    }                                                                          \
  } while (0)
#define CHECK_VARIABLE_ARRAY(OBJECT, OP, T, ...)                              \
  do {                                                                         \
    for (int i = 0; i < 3; i++) {                                              \
      T a_, old_, b_;                                                          \
      auto fill_ = __VA_ARGS__;                                                \
      fill_(a_, i), fill_(old_, i + 1), fill_(b_, i + 1);                      \
      T##_var c_;                                                              \
      T##_var r_ = (OBJECT)->OP(a_, b_, c_.out());                             \
      SAME_THREE(#OP, i, ARRAY_BYTES(T, r_.in()), ARRAY_BYTES(T, b_), ARRAY_BYTES(T, c_.in()), ARRAY_BYTES(T, a_), ARRAY_BYTES(T, old_)) \
    }                                                                          \
  } while (0)

// What a case works with.
struct Run {
  CORBA::ORB_ptr orb;
  PortableServer::POA_ptr root;
  const Options& options;
  Interop::Suite_ptr suite;  // nil when only --ns was given
  std::string current;       // the case that runs

  template <class T>
  typename T::_ptr_type group() const {
    CORBA::Object_var object = suite->group(current.c_str());
    typename T::_ptr_type narrowed = T::_narrow(object);
    if (CORBA::is_nil(narrowed)) throw Failure{"group is not of the interface"};
    return narrowed;
  }
};

bool run_value_case(const Run& run);   // false: no such case here
bool run_object_case(const Run& run);
bool run_naming_case(const Run& run);

#endif
