#include "servants_values.h"

CORBA::Any* AnyValuesServant::make(const char* what) {
  CORBA::Any_var any = new CORBA::Any;
  std::string kind = what;
  if (kind == "null") {
  } else if (kind == "long") {
    any.inout() <<= (CORBA::Long)42;
  } else if (kind == "string") {
    any.inout() <<= "forty-two";
  } else if (kind == "mixed") {
    Mixed m;
    m.name = "m";
    m.paint = green;
    m.at.x = 1;
    m.at.y = -2;
    m.tail = 9;
    any.inout() <<= m;
  } else if (kind == "longs") {
    Longs l;
    l.length(3);
    for (int i = 0; i < 3; i++) l[i] = i + 1;
    any.inout() <<= l;
  } else if (kind == "nested") {
    CORBA::Any inner;
    inner <<= (CORBA::Long)42;
    any.inout() <<= inner;
  } else if (kind == "tree") {
    Tree t;
    t.name = "root";
    t.children.length(1);
    t.children[0].name = "leaf";
    any.inout() <<= t;
  } else {
    throw CORBA::BAD_PARAM(0, CORBA::COMPLETED_NO);
  }
  return any._retn();
}

CORBA::TypeCode_ptr TypeCodesServant::describe(const char* what) {
  std::string kind = what;
  CORBA::TypeCode_ptr type = kind == "long" ? CORBA::_tc_long
      : kind == "mixed" ? _tc_Mixed
      : kind == "tree" ? _tc_Tree
      : kind == "expression" ? _tc_Expression
      : kind == "colour" ? _tc_Colour
      : kind == "over_long" ? _tc_OverLong
      : kind == "height" ? _tc_Height
      : kind == "plain" ? _tc_Plain
      : kind == "thing" ? _tc_Thing
      : kind == "money" ? _tc_Money
      : kind == "wide" ? _tc_Wide
                       : CORBA::TypeCode::_nil();
  if (CORBA::is_nil(type)) throw CORBA::BAD_PARAM(0, CORBA::COMPLETED_NO);
  return CORBA::TypeCode::_duplicate(type);
}
