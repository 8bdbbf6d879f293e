// The smallest server of omniORB for the footprint experiment: prints its reference, serves, ends
// with standard input.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "lamp.hh"

class Bulb : public POA_Minimum::Lamp {
 public:
  CORBA::Boolean turn(CORBA::Boolean on) override {
    turns_++;
    return on_.exchange(on);
  }
  CORBA::ULong turns() override { return turns_; }

 private:
  std::atomic<bool> on_{false};
  std::atomic<CORBA::ULong> turns_{0};
};

int main(int argc, char** argv) {
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
  PortableServer::ObjectId_var id = poa->activate_object(new Bulb);
  object = poa->id_to_reference(id);
  CORBA::String_var ior = orb->object_to_string(object);
  PortableServer::POAManager_var manager = poa->the_POAManager();
  manager->activate();
  puts(ior.in());
  fflush(stdout);
  std::thread([] {
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    _exit(0);
  }).detach();
  orb->run();
}
