// Case naming: the whole of CosNaming against the service of --ns. Works in a context of its own
// and removes it.
#include <unistd.h>

#include <set>

#include "check.h"

using namespace CosNaming;

namespace {

std::set<std::string> ids(const BindingList& list) {
  std::set<std::string> result;
  for (CORBA::ULong i = 0; i < list.length(); i++) result.insert((const char*)list[i].binding_name[0].id);
  return result;
}

void naming(const Run& run) {
  CORBA::Object_var object = run.orb->string_to_object(run.options.ns.c_str());
  NamingContextExt_var root = NamingContextExt::_narrow(object);
  EXPECT(!CORBA::is_nil(root));
  const std::string own = "interop-omniorb-" + std::to_string(getpid());
  Name name = to_name(own);
  NamingContext_var plain = root->bind_new_context(name);
  NamingContextExt_var context = NamingContextExt::_narrow(plain);
  EXPECT(!CORBA::is_nil(context));
  EXPECT_THROW(root->bind_new_context(name), NamingContext::AlreadyBound, );

  // bind, resolve, rebind, unbind; the service itself is the object that is bound.
  Name leaf = to_name("leaf");
  leaf[0].kind = "kind";
  context->bind(leaf, root);
  CORBA::Object_var found = context->resolve(leaf);
  EXPECT(found->_is_equivalent(root));
  EXPECT_THROW(context->bind(leaf, root), NamingContext::AlreadyBound, );
  context->rebind(leaf, context);
  found = context->resolve(leaf);
  EXPECT(found->_is_equivalent(context));
  EXPECT_THROW(context->resolve(to_name("absent")), NamingContext::NotFound,
               EXPECT(e.why == NamingContext::missing_node && e.rest_of_name.length() == 1));
  EXPECT_THROW(context->resolve(to_name("absent/below")), NamingContext::NotFound, EXPECT(e.rest_of_name.length() == 2));
  EXPECT_THROW(context->resolve(Name()), NamingContext::InvalidName, );

  // A path through contexts.
  NamingContext_var inner = context->bind_new_context(to_name("inner"));
  context->bind(to_name("inner/deep"), root);
  found = root->resolve(to_name(own + "/inner/deep"));
  EXPECT(found->_is_equivalent(root));
  EXPECT_THROW(inner->destroy(), NamingContext::NotEmpty, );
  NamingContext_var loose = context->new_context();
  context->bind_context(to_name("loose"), loose);
  EXPECT_THROW(context->bind_context(to_name("loose"), loose), NamingContext::AlreadyBound, );
  context->rebind_context(to_name("loose"), inner);

  // Listing, with an iterator for what does not fit.
  for (int i = 0; i < 20; i++) context->bind(to_name("many" + std::to_string(i)), root);
  BindingList_var list;
  BindingIterator_var iterator;
  context->list(1000, list.out(), iterator.out());
  EXPECT(ids(list).size() == 23);
  context->list(5, list.out(), iterator.out());
  EXPECT(list->length() == 5 && !CORBA::is_nil(iterator));
  std::set<std::string> seen = ids(list);
  Binding_var one;
  EXPECT(iterator->next_one(one.out()));
  seen.insert((const char*)one->binding_name[0].id);
  while (iterator->next_n(4, list.out())) {
    EXPECT(list->length() >= 1 && list->length() <= 4);
    for (const std::string& id : ids(list)) seen.insert(id);
  }
  EXPECT(seen.size() == 23);
  iterator->destroy();

  // Names as strings and URLs.
  CORBA::String_var text = context->to_string(leaf);
  EXPECT(std::string(text) == "leaf.kind");
  Name_var parsed = context->to_name("a\\.b.c/d\\/e");
  EXPECT(parsed->length() == 2 && std::string(parsed[0].id) == "a.b" && std::string(parsed[0].kind) == "c" &&
         std::string(parsed[1].id) == "d/e");
  found = context->resolve_str("inner/deep");
  EXPECT(found->_is_equivalent(root));
  text = context->to_url(":host:2809", "a/b");
  EXPECT(std::string(text) == "corbaname::host:2809#a/b");
  EXPECT_THROW(context->to_name(""), NamingContext::InvalidName, );
  EXPECT_THROW(context->to_url("", "a"), NamingContextExt::InvalidAddress, );

  for (int i = 0; i < 20; i++) context->unbind(to_name("many" + std::to_string(i)));
  EXPECT_THROW(context->unbind(to_name("many0")), NamingContext::NotFound, );
  context->unbind(to_name("loose"));
  context->unbind(leaf);
  context->unbind(to_name("inner/deep"));
  context->unbind(to_name("inner"));
  inner->destroy();
  loose->destroy();
  root->unbind(name);
  context->destroy();
  EXPECT_THROW(root->resolve(name), NamingContext::NotFound, );
}

}  // namespace

bool run_naming_case(const Run& run) {
  if (run.current != "naming") return false;
  naming(run);
  return true;
}
