// The omniORB server of the interoperability tests. Contract: interop/README.md.
#include <unistd.h>

#include <fstream>
#include <map>
#include <stdexcept>

#include "servants_objects.h"
#include "servants_values.h"

namespace {

class SuiteServant : public POA_Interop::Suite {
 public:
  explicit SuiteServant(CORBA::ORB_ptr orb) : orb_(CORBA::ORB::_duplicate(orb)) {}
  void add(const char* name, CORBA::Object_ptr object) { groups_[name] = CORBA::Object::_duplicate(object); }
  char* peer() override { return CORBA::string_dup("omniorb"); }
  Names* unsupported() override {
    Names* names = new Names;
    names->length(1);
    (*names)[0] = "attribute_exceptions";  // omniidl 4.2 has no getraises
    return names;
  }
  CORBA::Object_ptr group(const char* name) override {
    auto found = groups_.find(name);
    if (found == groups_.end()) throw NoSuchGroup(name);
    return CORBA::Object::_duplicate(found->second);
  }
  void shutdown() override { orb_->shutdown(false); }

 private:
  CORBA::ORB_var orb_;
  std::map<std::string, CORBA::Object_var> groups_;
};

// Binds in naming, making the contexts on the way.
void bind(CORBA::ORB_ptr orb, const Options& options, CORBA::Object_ptr object) {
  CORBA::Object_var ns = orb->string_to_object(options.ns.c_str());
  CosNaming::NamingContext_var context = CosNaming::NamingContext::_narrow(ns);
  if (CORBA::is_nil(context)) throw std::runtime_error("--ns is no naming context");
  CosNaming::Name path = to_name(options.name);
  for (CORBA::ULong depth = 1; depth < path.length(); depth++) {
    CosNaming::Name prefix(path);
    prefix.length(depth);
    try {
      CosNaming::NamingContext_var made = context->bind_new_context(prefix);
    } catch (const CosNaming::NamingContext::AlreadyBound&) {
    }
  }
  context->rebind(path, object);
}

int serve(const Options& options) {
  CORBA::ORB_var orb = init_orb(options, true);
  CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var root = PortableServer::POA::_narrow(object);
  PortableServer::POAManager_var manager = root->the_POAManager();
  // The POA with keys of plain text, so that corbaloc:...:PORT/Interop finds the root object.
  object = orb->resolve_initial_references("omniINSPOA");
  PortableServer::POA_var plain_keys = PortableServer::POA::_narrow(object);
  PortableServer::POAManager_var plain_manager = plain_keys->the_POAManager();

  SuiteServant* suite = new SuiteServant(orb);
  auto add = [&](const char* name, PortableServer::ServantBase* servant, PortableServer::POA_ptr poa) {
    PortableServer::ObjectId_var oid = poa->activate_object(servant);
    CORBA::Object_var reference = poa->id_to_reference(oid);
    suite->add(name, reference);
    return reference._retn();
  };
  add("scalars", new ScalarsServant, root);
  add("floats", new FloatingPointServant, root);
  add("long_doubles", new LongDoublesServant, root);
  CORBA::Object_var strings = add("strings", new NarrowStringsServant, root);
  suite->add("utf8_strings", strings);
  add("wides", new WidesServant, root);
  add("bounded_wides", new BoundedWidesServant, root);
  add("wide_chars", new WideCharsServant, root);
  add("enums", new EnumsServant, root);
  add("structs", new StructsServant, root);
  CORBA::Object_var unions = add("unions", new UnionsServant, root);
  suite->add("union_labels", unions);
  add("sequences", new SequencesServant, root);
  add("arrays", new ArraysServant, root);
  CORBA::Object_var fixeds = add("fixeds", new FixedsServant, root);
  suite->add("fixed_zeros", fixeds);
  add("recursive", new RecursiveServant, root);
  add("typedefs", new TypedefsServant, root);
  add("anys", new AnyValuesServant, root);
  add("typecodes", new TypeCodesServant, root);
  add("references", new ReferencesServant, root);
  add("factories", new FactoriesServant(root), root);
  add("inheritance", new InheritanceServant, root);
  add("user_exceptions", new UserExceptionsServant, root);
  add("system_exceptions", new SystemExceptionsServant, root);
  add("attributes", new AttributesServant, root);
  add("oneways", new OnewaysServant, root);
  PortableServer::POA_var callers = options.bidir ? bidirectional_poa(orb, root) : PortableServer::POA::_duplicate(root);
  CORBA::Object_var callbacks = add("callbacks", new CallbacksServant, callers);
  suite->add("bidirectional", callbacks);
  add("forwards", new ForwardsServant(root), root);
  add("timeouts", new SlowServant, root);
  CORBA::Object_var large = add("large", new LargeServant, root);
  suite->add("parallel", large);
  add("contexts", new ContextsServant, root);

  PortableServer::ObjectId_var key = PortableServer::string_to_ObjectId("Interop");
  plain_keys->activate_object_with_id(key, suite);
  CORBA::Object_var reference = plain_keys->id_to_reference(key);
  manager->activate();
  plain_manager->activate();
  if (!options.ns.empty()) bind(orb, options, reference);
  CORBA::String_var ior = orb->object_to_string(reference);
  std::ofstream(options.ior_file) << ior.in() << "\n";
  printf("READY\n");
  fflush(stdout);

  std::thread watcher([&] {
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    orb->shutdown(false);
  });
  watcher.detach();
  orb->run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse_options(argc, argv, true);
  try {
    // The process ends here: the ORB's tear-down would wait for the thread that reads stdin.
    _exit(serve(options));
  } catch (const CORBA::Exception& e) {
    fprintf(stderr, "server: %s\n", e._name());
  } catch (const std::exception& e) {
    fprintf(stderr, "server: %s\n", e.what());
  }
  return 1;
}
