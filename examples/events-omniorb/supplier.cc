// Pushes each line of its standard input as a reading of type 16 from source 1.
#include "isorb_events.hpp"

namespace events = isorb::events;

int main(int argc, char** argv) {
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  if (argc < 2) return std::cerr << "give the URL of the channel" << std::endl, 2;
  auto gps = events::Channel(orb, argv[1]).supplier();
  std::cout << "READY" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (!gps.push(16, 1, line)) std::cout << "lost: " << line << std::endl;
  }
  std::cout << gps.pushed() << " pushed, " << gps.lost() << " lost" << std::endl;
}
