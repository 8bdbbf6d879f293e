// With a URL and a strength: pushes each line of its standard input, and prints whether the channel
// heard it.
#include "isorb_events.hpp"

namespace events = isorb::events;
using namespace std::chrono_literals;

int main(int argc, char** argv) {
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  if (argc < 3) return 2;
  try {
    events::Channel channel(orb, argv[1]);
    events::SupplierOptions options;
    options.strength = std::stoi(argv[2]);
    options.lease = 200ms;
    auto supplier = channel.supplier(options);
    std::cout << "READY" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      const auto dropped = supplier.not_owned();
      if (!supplier.push(16, 1, line)) std::cout << "lost" << std::endl;
      else std::cout << (supplier.not_owned() == dropped ? "heard" : "dropped") << std::endl;
    }
  } catch (const events::Error& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
}
