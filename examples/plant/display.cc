// A display of the control room in C++: display PLANT RUNS SOCKET
//
// It shows a plant until it has read 400 images of its last run; the plant is started RUNS times.
// It does what the display in src/main.rs does, on libisorb_crm.
#include "isorb_crm.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace crm = isorb::crm;
using namespace std::chrono_literals;

// As src/image.rs writes it, on a machine of little-endian byte order.
struct Image {
  std::uint32_t plant;
  std::uint32_t run;
  std::uint64_t count;
  double pressure;
  double temperature;
  std::uint64_t repeated[28];

  // All repetitions of the counter are equal, so this is no mixture of two images.
  bool is_whole() const {
    for (std::uint64_t other : repeated) {
      if (other != count) return false;
    }
    return true;
  }
};
static_assert(sizeof(Image) == 256);

// Copies the latest image out of a lease. False if there is none, or the writer overwrote it
// meanwhile.
static bool read(crm::OctetReader& reader, Image& image) {
  crm::Lease lease = reader.lease();
  if (lease.size() != sizeof image) throw std::runtime_error("an image of another size");
  std::memcpy(&image, lease.data(), sizeof image);
  return lease.end();
}

static void show(std::uint32_t plant, std::uint32_t runs, const char* socket) {
  const std::string name = "plant/" + std::to_string(plant);
  crm::Session session(socket, 10s);
  isorb_crm_reader_qos qos{};
  qos.deadline_ns = 200000000;
  qos.histories = 2;
  crm::OctetReader reader(session, name, qos, 10s);
  std::cout << "READY " << plant << std::endl;

  unsigned long long seen = 0, of_last = 0, gone = 0;
  std::pair<std::uint32_t, std::uint64_t> last{0, 0};
  const auto end = std::chrono::steady_clock::now() + 100s;
  while (of_last < 400) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("no images of the last run in 100 s");
    std::uint32_t state = ISORB_CRM_STATE_OPEN;
    const crm::Event event = reader.wait(1s, &state);
    gone += event == crm::Event::state && state == ISORB_CRM_STATE_WRITER_GONE;
    if (event != crm::Event::value) continue;
    Image image;
    if (!read(reader, image)) continue;
    const std::pair now{image.run, image.count};
    if (image.plant != plant || !image.is_whole() || now < last) throw std::runtime_error("an image that no plant wrote");
    seen += now > last;
    last = now;
    of_last += image.run == runs;
  }
  if (runs > 1 && gone == 0) throw std::runtime_error("the plant was killed, and its display was not informed");
  std::cout << name << " in C++: " << seen << " images, " << reader.statistics().lost << " lost on the way, last ("
            << last.first << ", " << last.second << ")" << std::endl;
}

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: display PLANT RUNS SOCKET\n";
    return 2;
  }
  show(std::strtoul(argv[1], nullptr, 10), std::strtoul(argv[2], nullptr, 10), argv[3]);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "display: " << error.what() << '\n';
  return 1;
}
