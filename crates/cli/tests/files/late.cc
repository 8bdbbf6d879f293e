// With a URL and `push`: pushes the numbers of its standard input. With a URL and a condition:
// prints the numbers that satisfy it, those of the history first. These may come before READY.
#include "isorb_events.hpp"

namespace events = isorb::events;

// A line in one piece, whichever threads print.
void print(const std::string& line) { std::cout << line + "\n" << std::flush; }

int main(int argc, char** argv) {
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  if (argc < 3) return 2;
  try {
    events::Channel channel(orb, argv[1]);
    if (std::string(argv[2]) == "push") {
      auto supplier = channel.supplier();
      print("READY");
      for (CORBA::Long number; std::cin >> number;) supplier.push(16, 1, events::encode(number));
      return 0;
    }
    events::ConsumerOptions options;
    options.history_last = 5;
    options.where = argv[2];
    options.payload = CORBA::TypeCode::_duplicate(CORBA::_tc_long);
    auto consumer = channel.consume(
        events::Filter::of_type(16),
        [](const events::Event& event) {
          cdrEncapsulationStream stream(event.data, static_cast<CORBA::ULong>(event.size));
          print(std::to_string(stream.unmarshalLong()));
        },
        options);
    print("READY");
    orb->run();
  } catch (const events::Error& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
}
