#include "servants_objects.h"

namespace {

struct ThingServant : POA_Interop::Thing {
  PortableServer::POA_var poa;
  std::string name;
  std::atomic<CORBA::LongLong> total{0};
  ThingServant(PortableServer::POA_ptr p, const char* id) : poa(PortableServer::POA::_duplicate(p)), name(id) {}
  char* id() override { return CORBA::string_dup(name.c_str()); }
  CORBA::LongLong add(CORBA::Long amount) override { return total += amount; }
  void destroy() override {
    PortableServer::ObjectId_var oid = poa->servant_to_id(this);
    poa->deactivate_object(oid);
  }
};

}  // namespace

Thing_ptr new_thing(PortableServer::POA_ptr poa, const char* id) {
  PortableServer::Servant_var<ThingServant> servant = new ThingServant(poa, id);
  PortableServer::ObjectId_var oid = poa->activate_object(servant);
  CORBA::Object_var object = poa->id_to_reference(oid);
  return Thing::_narrow(object);
}

void SystemExceptionsServant::raise_system(const char* name, CORBA::ULong minor, CORBA::ULong completed) {
  CORBA::CompletionStatus status = (CORBA::CompletionStatus)completed;
  std::string wanted = name;
#define RAISE(NAME) \
  if (wanted == #NAME) throw CORBA::NAME(minor, status);
  OMNIORB_FOR_EACH_SYS_EXCEPTION(RAISE)
#undef RAISE
  throw CORBA::BAD_PARAM(0, CORBA::COMPLETED_NO);
}

PortableServer::Servant MovedLocator::preinvoke(const PortableServer::ObjectId& oid, PortableServer::POA_ptr, const char*,
                                                PortableServer::ServantLocator::Cookie&) {
  CORBA::String_var key = PortableServer::ObjectId_to_string(oid);
  std::lock_guard<std::mutex> g(lock_);
  for (auto& target : targets_)
    if (target.first == key.in()) {
      forwards++;
      throw PortableServer::ForwardRequest(target.second);
    }
  throw CORBA::OBJECT_NOT_EXIST(0, CORBA::COMPLETED_NO);
}

ForwardsServant::ForwardsServant(PortableServer::POA_ptr root) {
  PortableServer::POAManager_var manager = root->the_POAManager();
  CORBA::PolicyList policies(4);
  policies.length(4);
  policies[0] = root->create_servant_retention_policy(PortableServer::NON_RETAIN);
  policies[1] = root->create_request_processing_policy(PortableServer::USE_SERVANT_MANAGER);
  policies[2] = root->create_id_assignment_policy(PortableServer::USER_ID);
  policies[3] = root->create_lifespan_policy(PortableServer::TRANSIENT);
  moved = root->create_POA("moved", manager, policies);
  locator = new MovedLocator(root);
  moved->set_servant_manager(locator);
}

Thing_ptr ForwardsServant::create(const char* name) {
  Thing_var target = new_thing(locator->things(), name);
  std::string key = "moved-" + std::to_string(next++);
  locator->expect(key, target);
  PortableServer::ObjectId_var oid = PortableServer::string_to_ObjectId(key.c_str());
  CORBA::Object_var object = moved->create_reference_with_id(oid, Thing::_PD_repoId);
  return Thing::_unchecked_narrow(object);
}

char* ContextsServant::lookup(const char* key, CORBA::Context_ptr context) {
  CORBA::NVList_var values;
  try {
    context->get_values("", 0, key, values.out());
  } catch (const CORBA::BAD_CONTEXT&) {
    return CORBA::string_dup("");
  }
  if (values->count() == 0) return CORBA::string_dup("");
  const char* text;
  if (!(*values->item(0)->value() >>= text)) return CORBA::string_dup("");
  return CORBA::string_dup(text);
}
