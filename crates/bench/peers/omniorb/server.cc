// The omniORB server of the benchmark: prints "ready IOR", serves, ends when standard input does.
// The protocol is in crates/bench/src/protocol.rs.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "bench.hh"
#include "peer.h"

namespace {

class Servant : public POA_Bench::Target {
 public:
  explicit Servant(CORBA::ORB_ptr orb) : orb_(CORBA::ORB::_duplicate(orb)) {}
  void ping() override {}
  Bench::Octets* echo(const Bench::Octets& o) override { return new Bench::Octets(o); }
  char* text(const char* s) override { return CORBA::string_dup(s); }
  Bench::Readings* structs(const Bench::Readings& r) override { return new Bench::Readings(r); }
  Bench::Samples* plain(const Bench::Samples& s) override { return new Bench::Samples(s); }
  void feed(const Bench::Octets&) override { fed_++; }
  CORBA::ULongLong fed() override { return fed_; }
  void method(Bench::Message&) override {}
  void post(const Bench::Message&) override { fed_++; }
  void stop() override { orb_->shutdown(false); }

 private:
  CORBA::ORB_var orb_;
  std::atomic<CORBA::ULongLong> fed_{0};
};

}  // namespace

int main(int argc, char** argv) {
  die_with_parent();
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    PortableServer::ObjectId_var id = poa->activate_object(new Servant(orb));
    object = poa->id_to_reference(id);
    CORBA::String_var ior = orb->object_to_string(object);
    manager->activate();
    std::thread([] {
      char byte;
      while (read(0, &byte, 1) > 0) {
      }
      _exit(0);
    }).detach();
    printf("ready %s\n", ior.in());
    fflush(stdout);
    orb->run();
  } catch (const CORBA::Exception& e) {
    fprintf(stderr, "omniorb server: %s\n", e._name());
    return 1;
  }
  return 0;
}
