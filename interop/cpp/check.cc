#include "check.h"

std::string bytes(CORBA::TypeCode_ptr type) {
  static std::vector<CORBA::TypeCode_var> known;
  size_t i = 0;
  while (i < known.size() && !known[i]->equal(type)) i++;
  if (i == known.size()) known.push_back(CORBA::TypeCode::_duplicate(type));
  return "<type " + std::to_string(i) + ">";
}

std::string bytes(CORBA::Object_ptr object) {
  static std::vector<CORBA::Object_var> known;
  if (CORBA::is_nil(object)) return "<nil>";
  size_t i = 0;
  while (i < known.size() && !known[i]->_is_equivalent(object)) i++;
  if (i == known.size()) known.push_back(CORBA::Object::_duplicate(object));
  return "<object " + std::to_string(i) + ">";
}

std::string bytes(const CORBA::Any& any) {
  CORBA::TypeCode_var type = any.type();
  std::string token = bytes((CORBA::TypeCode_ptr)type);
  const CORBA::Any* inner;
  CORBA::TypeCode_ptr inner_type;
  CORBA::Object_var object;
  const CORBA::WChar* wide;
  // By its text: with or without a byte order mark is the sender's choice.
  if (type->kind() == CORBA::tk_wstring && (any >>= wide)) return token + wide_bytes(wide);
  if (type->kind() == CORBA::tk_any && (any >>= inner)) return token + bytes(*inner);
  if (type->kind() == CORBA::tk_TypeCode && (any >>= inner_type)) return token + bytes(inner_type);
  if (type->kind() == CORBA::tk_objref && (any >>= CORBA::Any::to_object(object.out()))) return token + bytes((CORBA::Object_ptr)object);
  // What follows the TypeCode in the Any's CDR form is the value.
  cdrMemoryStream whole((CORBA::ULong)1024, true), head((CORBA::ULong)1024, true);
  any >>= whole;
  CORBA::TypeCode::marshalTypeCode(type, head);
  return token + buffer_of(whole).substr(head.bufSize());
}

std::string bytes(const Interop::Anys& anys) {
  std::string all = std::to_string(anys.length());
  for (CORBA::ULong i = 0; i < anys.length(); i++) all += bytes(anys[i]);
  return all;
}

std::string bytes(const Interop::WithAny& value) { return bytes(value.before) + bytes(value.value) + bytes(value.after); }
