// Servants of the groups of values: all of them follow the echo rule.
#ifndef INTEROP_SERVANTS_VALUES_H
#define INTEROP_SERVANTS_VALUES_H

#include <algorithm>
#include <cstring>

#include "common.h"
#include "echo.h"

using namespace Interop;

struct ScalarsServant : POA_Interop::Scalars {
  void nothing() override {}
  ECHO_VALUE(CORBA::Boolean, boolean)
  ECHO_VALUE(CORBA::Char, char)
  ECHO_VALUE(CORBA::Octet, octet)
  ECHO_VALUE(CORBA::Short, short)
  ECHO_VALUE(CORBA::UShort, ushort)
  ECHO_VALUE(CORBA::Long, long)
  ECHO_VALUE(CORBA::ULong, ulong)
  ECHO_VALUE(CORBA::LongLong, longlong)
  ECHO_VALUE(CORBA::ULongLong, ulonglong)
};

struct FloatingPointServant : POA_Interop::FloatingPoint {
  ECHO_VALUE(CORBA::Float, float)
  ECHO_VALUE(CORBA::Double, double)
};

struct LongDoublesServant : POA_Interop::LongDoubles {
  ECHO_VALUE(CORBA::LongDouble, longdouble)
};

struct NarrowStringsServant : POA_Interop::NarrowStrings {
  ECHO_STRING(string, CORBA::String_out)
  ECHO_STRING(short_string, ShortString_out)
};

struct WidesServant : POA_Interop::Wides {
  ECHO_WSTRING(wstring, CORBA::WString_out)
  ECHO_VARIABLE(WStrings, wstrings)
};

struct BoundedWidesServant : POA_Interop::BoundedWides {
  ECHO_WSTRING(short_wstring, ShortWString_out)
};

struct WideCharsServant : POA_Interop::WideChars {
  ECHO_VALUE(CORBA::WChar, wchar)
  ECHO_VARIABLE(Wide, wide)
  ECHO_VARIABLE(WChars, wchars)
  ECHO_FIXED_ARRAY(ThreeWChars, three_wchars)
  ECHO_VARIABLE(OverWide, over_wide)
};

struct EnumsServant : POA_Interop::Enums {
  ECHO_VALUE(Colour, colour)
  ECHO_VALUE(Paint, paint)
  ECHO_VARIABLE(Colours, colours)
};

struct StructsServant : POA_Interop::Structs {
  ECHO_FIXED_LENGTH(Point, point)
  ECHO_FIXED_LENGTH(Padded, padded)
  ECHO_VARIABLE(Mixed, mixed)
  ECHO_VARIABLE(Nested, nested)
  ECHO_VARIABLE(Holder, holder)
  ECHO_VARIABLE(WithArrays, with_arrays)
};

struct UnionsServant : POA_Interop::Unions {
  ECHO_VARIABLE(OverLong, over_long)
  ECHO_VARIABLE(OverEnum, over_enum)
  ECHO_FIXED_LENGTH(OverEnumOpen, over_enum_open)
  ECHO_VARIABLE(OverBoolean, over_boolean)
  ECHO_FIXED_LENGTH(OverBooleanOpen, over_boolean_open)
  ECHO_VARIABLE(OverChar, over_char)
  ECHO_VARIABLE(OverShort, over_short)
  ECHO_FIXED_LENGTH(OverULongLong, over_ulonglong)
};

struct SequencesServant : POA_Interop::Sequences {
  ECHO_VARIABLE(Octets, octets)
  ECHO_VARIABLE(Booleans, booleans)
  ECHO_VARIABLE(Chars, chars)
  ECHO_VARIABLE(Shorts, shorts)
  ECHO_VARIABLE(Longs, longs)
  ECHO_VARIABLE(ULongLongs, ulonglongs)
  ECHO_VARIABLE(Floats, floats)
  ECHO_VARIABLE(Doubles, doubles)
  ECHO_VARIABLE(Strings, strings)
  ECHO_VARIABLE(Points, points)
  ECHO_VARIABLE(Mixeds, mixeds)
  ECHO_VARIABLE(OverLongs, over_longs)
  ECHO_VARIABLE(LongsList, longs_list)
  ECHO_VARIABLE(FourLongs, four_longs)
  ECHO_VARIABLE(ThreeShortStrings, three_short_strings)
};

struct ArraysServant : POA_Interop::Arrays {
  ECHO_FIXED_ARRAY(FiveLongs, five_longs)
  ECHO_FIXED_ARRAY(Grid, grid)
  ECHO_FIXED_ARRAY(Cube, cube)
  ECHO_FIXED_ARRAY(EightOctets, eight_octets)
  ECHO_VARIABLE_ARRAY(ThreeStrings, three_strings)
  ECHO_FIXED_ARRAY(TwoPoints, two_points)
  ECHO_VARIABLE_ARRAY(TwoMixeds, two_mixeds)
  ECHO_VARIABLE_ARRAY(TwoLongs, two_longs)
};

struct FixedsServant : POA_Interop::Fixeds {
  ECHO_FIXED_LENGTH(Money, money)
  ECHO_FIXED_LENGTH(Huge, huge)
  ECHO_FIXED_LENGTH(Fraction, fraction)
  ECHO_FIXED_LENGTH(EvenDigits, even_digits)
  ECHO_FIXED_LENGTH(Invoice, invoice)
  ECHO_VARIABLE(Moneys, moneys)
};

struct RecursiveServant : POA_Interop::Recursive {
  ECHO_VARIABLE(Tree, tree)
  ECHO_VARIABLE(Expression, expression)
  CORBA::ULong depth(const Tree& root) override {
    CORBA::ULong deepest = 0;
    for (CORBA::ULong i = 0; i < root.children.length(); i++) deepest = std::max(deepest, depth(root.children[i]));
    return deepest + 1;
  }
};

struct TypedefsServant : POA_Interop::Typedefs {
  ECHO_VALUE(Height, height)
  ECHO_VARIABLE(Profile, profile)
  ECHO_VARIABLE_ARRAY(Triple, triple)
  ECHO_VARIABLE(Alias2, alias2)
};

struct AnyValuesServant : POA_Interop::AnyValues {
  ECHO_VARIABLE_OUT(CORBA::Any, any, CORBA::Any_OUT_arg)
  ECHO_VARIABLE(Anys, anys)
  ECHO_VARIABLE(WithAny, with_any)
  CORBA::ULong kind(const CORBA::Any& value) override {
    CORBA::TypeCode_var type = value.type();
    return type->kind();
  }
  CORBA::Any* make(const char* what) override;
};

struct TypeCodesServant : POA_Interop::TypeCodes {
  ECHO_COUNTED(CORBA::TypeCode_ptr, typecode, CORBA::TypeCode_OUT_arg, CORBA::TypeCode::_duplicate)
  CORBA::Boolean same(CORBA::TypeCode_ptr a, CORBA::TypeCode_ptr b) override { return a->equal(b); }
  CORBA::Boolean equivalent(CORBA::TypeCode_ptr a, CORBA::TypeCode_ptr b) override { return a->equivalent(b); }
  CORBA::TypeCode_ptr describe(const char* what) override;
};

struct LargeServant : POA_Interop::Large {
  ECHO_VARIABLE(Octets, octets)
  ECHO_STRING(string, CORBA::String_out)
  ECHO_VARIABLE(Doubles, doubles)
  ECHO_VARIABLE(Mixeds, mixeds)
  Octets* pattern(CORBA::ULong length) override {
    Octets* result = new Octets(length);
    result->length(length);
    for (CORBA::ULong i = 0; i < length; i++) (*result)[i] = i % 251;
    return result;
  }
  CORBA::ULongLong sum(const Octets& data) override {
    CORBA::ULongLong total = 0;
    for (CORBA::ULong i = 0; i < data.length(); i++) total += data[i];
    return total;
  }
};

#endif
