// Typed values, with a Rust program at the other end: typed SOCKET
#include "isorb_crm.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

using namespace std::chrono_literals;
namespace crm = isorb::crm;

static_assert(sizeof(bool) == 1);

namespace plant {
struct Point {
  std::int16_t x;
  std::uint16_t y;
};
struct Pressure {
  bool valid;
  double bar;
  std::uint16_t of[3];
  std::array<Point, 2> at;
  std::int64_t count;
  unsigned char last;
};
// The same names, another member.
namespace other {
struct Pressure {
  bool valid;
  float bar;
};
}  // namespace other
}  // namespace plant

ISORB_CRM_AREA_TYPE(plant::Point, "IDL:Plant/Point:1.0", ISORB_CRM_MEMBER(x), ISORB_CRM_MEMBER(y))
ISORB_CRM_AREA_TYPE(plant::Pressure, "IDL:Plant/Pressure:1.0", ISORB_CRM_MEMBER(valid), ISORB_CRM_MEMBER(bar),
                    ISORB_CRM_MEMBER(of), ISORB_CRM_MEMBER(at), ISORB_CRM_MEMBER(count), ISORB_CRM_MEMBER(last))
ISORB_CRM_AREA_TYPE(plant::other::Pressure, "IDL:Plant/Pressure:1.0", ISORB_CRM_MEMBER(valid), ISORB_CRM_MEMBER(bar))

// Boolean, the double at 8, three numbers to 22, two points to 30, the count at 32, an octet.
static_assert(crm::detail::size_in_cdr<plant::Pressure>() == 41);
// In CDR the second element begins behind the octet of the first.
struct Gap {
  std::int16_t a;
  char b;
};
struct Gaps {
  Gap gaps[2];
};
ISORB_CRM_AREA_TYPE(Gap, "IDL:Gap:1.0", ISORB_CRM_MEMBER(a), ISORB_CRM_MEMBER(b))
ISORB_CRM_AREA_TYPE(Gaps, "IDL:Gaps:1.0", ISORB_CRM_MEMBER(gaps))
static_assert(crm::detail::size_in_cdr<Gap>() == 3);
// CDR: 2 + 1, aligned to 4, 2 + 1; as C++ has it.
static_assert(crm::detail::size_in_cdr<Gaps>() == 7);
// In CDR the octet of the inner structure follows that of the outer one.
struct Inner {
  char a;
  double b;
};
struct Outer {
  char a;
  Inner in;
};
ISORB_CRM_AREA_TYPE(Inner, "IDL:Inner:1.0", ISORB_CRM_MEMBER(a), ISORB_CRM_MEMBER(b))
ISORB_CRM_AREA_TYPE(Outer, "IDL:Outer:1.0", ISORB_CRM_MEMBER(a), ISORB_CRM_MEMBER(in))
static_assert(crm::detail::end_in_cdr<Outer>(0, 0) == crm::detail::nowhere);

static void expect(bool good, const char* what) {
  if (!good) {
    std::cerr << "not so: " << what << "; last failure: " << isorb_crm_error_text() << std::endl;
    std::exit(1);
  }
}

template <class F>
static std::string refused(isorb_crm_result code, F attempt) {
  try {
    attempt();
  } catch (const crm::Error& error) {
    expect(error.code() == code, error.what());
    return error.what();
  }
  expect(false, "it is refused");
  return "";
}

static void reads_from_rust(const crm::Session& session) {
  crm::AreaReader<plant::Pressure> reader(session, "from-rust", {}, 60s);
  while (!reader.latest()) reader.wait(60s);
  const auto read = reader.latest();
  const plant::Pressure& value = read->value;
  expect(value.valid && value.bar == 3.25 && value.of[2] == 0xfffe && value.at[1].x == -7 && value.at[1].y == 8 &&
             value.count == -1 && value.last == 9,
         "the value is as it was written");
  expect(!reader.has_new() && reader.state() == ISORB_CRM_STATE_OPEN, "it was read");

  std::string text = refused(ISORB_CRM_WRONG_TYPE,
                             [&] { crm::AreaReader<plant::other::Pressure>(session, "from-rust"); });
  expect(text.find("`double bar` there and `float bar` here") != std::string::npos, text.c_str());
  text = refused(ISORB_CRM_WRONG_TYPE, [&] { crm::OctetReader(session, "from-rust"); });
  expect(text.find("octets were expected") != std::string::npos, text.c_str());
  text = refused(ISORB_CRM_WRONG_TYPE, [&] { crm::AreaReader<Gap>(session, "from-rust"); });
  expect(text.find("IDL:Gap:1.0") != std::string::npos, text.c_str());
  crm::OctetReader any({ISORB_CRM_ANY_TYPE, nullptr, nullptr}, session, "from-rust");
  crm::Lease lease = any.lease();
  expect(lease.size() == 41 && lease.data()[0] == 1 && lease.data()[40] == 9, "the octets are CDR");
  expect(lease.end(), "the lease was intact");
}

// Octets that are not a value, and an area of the other byte order.
static void refuses(const crm::Session& session) {
  crm::AreaReader<plant::Pressure> reader(session, "not-values", {}, 60s);
  while (!reader.has_new()) reader.wait(60s);
  try {
    reader.latest();
    expect(false, "2 is no boolean");
  } catch (const crm::BadValue& error) {
    expect(std::string(error.what()).find("boolean") != std::string::npos, error.what());
  }
  const std::string text =
      refused(ISORB_CRM_WRONG_TYPE, [&] { crm::AreaReader<plant::Pressure>(session, "foreign"); });
  expect(text.find("byte order") != std::string::npos, text.c_str());
}

int main(int argc, char** argv) try {
  expect(argc == 2, "there is an argument");
  crm::Session session(argv[1], 60s);
  reads_from_rust(session);
  refuses(session);

  expect(session.open_or_create<plant::Pressure>("from-cpp", 2, 60s), "the area is new");
  expect(!session.open_or_create<plant::Pressure>("from-cpp", 2, 60s), "the area is known");
  crm::AreaWriter<plant::Pressure> writer(session, "from-cpp", {1000000, 0, 0});
  plant::Pressure value{true, 1.5, {1, 2, 3}, {{{4, 5}, {-6, 7}}}, 8, 9};
  expect(writer.write(value) == 1, "values are numbered");
  crm::AreaReader<plant::Pressure> own(session, "from-cpp");
  expect(own.next()->value.at[1].x == -6 && !own.next(), "the own value is read once");
  // Moved, not copied: closed once.
  crm::AreaWriter<plant::Pressure> moved = std::move(writer);
  expect(moved.is_served() && moved.write(value) == 2, "a writer can be moved");
  refused(ISORB_CRM_CLOSED, [&] { writer.write(value); });
  std::puts("READY written");
  std::fflush(stdout);
  std::getchar();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "failed: " << error.what() << std::endl;
  return 1;
}
