// Prints the readings of type 16 from source 1.
#include "isorb_events.hpp"

namespace events = isorb::events;

int main(int argc, char** argv) {
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  if (argc < 2) return std::cerr << "give the URL of the channel" << std::endl, 2;
  events::Channel channel(orb, argv[1]);
  auto display = channel.consume(events::Filter::of(16, 1), [](const events::Event& event) {
    std::cout << event.text() << std::endl;
  });
  std::cout << "READY" << std::endl;
  orb->run();
}
