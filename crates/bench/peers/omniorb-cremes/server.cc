// The consumers' node of the cremes experiments: returns the stamp of each value by a datagram to
// the address that its last two arguments say. Prints "ready IOR", serves, ends when standard input
// does.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cremes.hh"
#include "peer.h"

namespace {

constexpr CORBA::ULong kStamp = 12;

class Sink : public POA_Cremes::Sink {
 public:
  explicit Sink(int socket) : socket_(socket) {}
  void push(const Cremes::Octets& value) override {
    // What is shorter only opens a connection. A stamp that is lost is missing in the count.
    if (value.length() >= kStamp) (void)!send(socket_, value.get_buffer(), kStamp, 0);
  }

 private:
  int socket_;
};

int connected_to(const char* host, const char* port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(atoi(port)));
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(s, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    perror("omniorb server: the address for stamps");
    exit(1);
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  die_with_parent();
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    if (argc != 3) {
      fprintf(stderr, "omniorb server: expects the address and the port for stamps\n");
      return 1;
    }
    CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    PortableServer::ObjectId_var id = poa->activate_object(new Sink(connected_to(argv[1], argv[2])));
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
