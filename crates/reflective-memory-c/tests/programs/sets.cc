// Readers of several areas with a type: sets SOCKET
#include "isorb_crm.hpp"

#include <cstdlib>
#include <iostream>

using namespace std::chrono_literals;
namespace crm = isorb::crm;

struct Level {
  double metres;
  std::int32_t valve;
};
ISORB_CRM_AREA_TYPE(Level, "IDL:Plant/Level:1.0", ISORB_CRM_MEMBER(metres), ISORB_CRM_MEMBER(valve))

static void expect(bool good, const char* what) {
  if (good) return;
  std::cerr << "not so: " << what << '\n';
  std::exit(1);
}

int main(int argc, char** argv) try {
  expect(argc == 2, "a socket");
  crm::Session session(argv[1], 60s);
  crm::AreaSet<Level> set(session, "tank/*");
  expect(set.attached() == 0 && set.refused() == 0, "no areas");
  expect(!set.next(1us), "no value");
  crm::StrongestReader<Level> strongest(session, {{"tank/main", 10}, {"tank/spare", 1}});
  expect(!strongest.latest(), "no writer lives");
  session.open_or_create_octets("tank/octets", 8, 1, 60s);
  session.open_or_create<Level>("tank/spare", 1, 60s);
  crm::AreaWriter<Level> spare(session, "tank/spare");
  expect(strongest.wait(60s) == crm::Event::state, "the spare is shown");
  spare.write({2.5, -1});
  expect(strongest.wait(60s) == crm::Event::value, "it has a value");
  auto shown = strongest.latest();
  expect(shown && shown->area == "tank/spare" && shown->value.metres == 2.5, "the spare's value");
  {
    session.open_or_create<Level>("tank/main", 1, 60s);
    crm::AreaWriter<Level> main(session, "tank/main");
    expect(strongest.wait(60s) == crm::Event::state, "the stronger one is shown");
    main.write({3.5, 7});
    shown = strongest.latest();
    expect(shown && shown->area == "tank/main" && shown->value.valve == 7, "its value");
  }
  expect(strongest.wait(60s) == crm::Event::state, "the spare is shown again");
  shown = strongest.latest();
  expect(shown && shown->area == "tank/spare", "by name");
  expect(strongest.wait(1us) == crm::Event::timeout, "nothing new");

  // Both values, each in turn; the area of octets is refused.
  const auto first = set.next(60s), second = set.next(60s);
  expect(first && second && first->area != second->area, "each area in turn");
  expect(first->value.metres + second->value.metres == 6.0, "the values of both");
  expect(set.attached() == 2 && set.refused() == 1, "octets are no level");
  std::cout << "good\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
