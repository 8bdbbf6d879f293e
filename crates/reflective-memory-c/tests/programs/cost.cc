// As cost.c, with the classes: cost SOCKET
#include "isorb_crm.hpp"

#include <algorithm>
#include <cstdio>

using namespace std::chrono_literals;
namespace crm = isorb::crm;

struct Words {
  std::uint64_t words[8];
};
ISORB_CRM_AREA_TYPE(Words, "IDL:Cost/Words:1.0", ISORB_CRM_MEMBER(words))

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  using clock = std::chrono::steady_clock;
  constexpr int rounds = 20, pairs = 100000;
  crm::Session session(argv[1], 60s);
  session.open_or_create<Words>("cost-cpp", 3, 60s);
  crm::AreaWriter<Words> writer(session, "cost-cpp");
  crm::AreaReader<Words> reader(session, "cost-cpp");
  Words value{};
  double least = 1e18;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = clock::now();
    for (int i = 0; i < pairs; ++i) {
      value.words[0] = static_cast<std::uint64_t>(i);
      writer.write(value);
      if (reader.latest()->value.words[0] != value.words[0]) return 1;
    }
    least = std::min(least, std::chrono::duration<double, std::nano>(clock::now() - begin).count() / pairs);
  }
  std::printf("%.1f\n", least);
  return 0;
}
