// A client of RIO made with another ORB (omniORB 4): its values travel by GIOP. Given a RIO's
// reference, or `name` and the name by which it is bound in the naming service, makes an area,
// writes, reads.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <omniORB4/Naming.hh>
#include "ReflectiveMemory.hh"

namespace RM = ReflectiveMemory;

static void expect(bool good, const char* what) {
  if (!good) {
    std::cerr << "not so: " << what << std::endl;
    std::exit(1);
  }
}

static CORBA::Object_ptr named(CORBA::ORB_ptr orb, const char* name) {
  CORBA::Object_var service = orb->resolve_initial_references("NameService");
  CosNaming::NamingContextExt_var naming = CosNaming::NamingContextExt::_narrow(service);
  expect(!CORBA::is_nil(naming), "there is a naming service");
  return naming->resolve_str(name);
}

int main(int argc, char** argv) {
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    bool by_name = argc == 3 && std::strcmp(argv[1], "name") == 0;
    CORBA::Object_var object = by_name ? named(orb, argv[2]) : orb->string_to_object(argv[1]);
    RM::RIO_var rio = RM::RIO::_narrow(object);
    expect(!CORBA::is_nil(rio), "the object is a RIO");

    RM::Area area;
    area.name = CORBA::string_dup("from-omniorb");
    area.size = 16;
    area.histories = 2;
    area.data.hash = 0;
    area.data.little_endian = true;
    rio->create_area(area);
    try {
      rio->create_area(area);
      expect(false, "a second area of the name is refused");
    } catch (const RM::AreaExists& e) {
      expect(e.what.size == 16, "the refusal says which there is");
    }

    RM::WriterQoS promise;
    promise.period = 1000000;
    promise.size = 0;
    promise.type_hash = 0;
    RM::Handle writer = rio->map_writer("from-omniorb", promise);
    RM::ReaderQoS wish = {RM::push_on_write, 0, 0, 1, false, false, RM::path_udp, 0, 0};
    RM::Handle reader = rio->attach_reader("from-omniorb", wish);

    wish.type_hash = 7;
    try {
      rio->attach_reader("from-omniorb", wish);
      expect(false, "a reader of another type is refused");
    } catch (const RM::WrongType& e) {
      expect(e.has.hash == 0, "the refusal says which type there is");
    }

    RM::Octets value;
    value.length(16);
    for (CORBA::Octet n = 1; n <= 3; ++n) {
      for (CORBA::ULong i = 0; i < 16; ++i) value[i] = n;
      expect(rio->write(writer, value) == n, "values are numbered");
    }
    RM::Sample about;
    RM::Octets_var read = rio->read_latest(reader, 0, 0, about);
    expect(read->length() == 16 && read[0] == 3 && about.number == 3 && about.missed == 2, "the latest value");
    read = rio->read_history(reader, 2, about);
    expect(read[15] == 1 && about.number == 1, "a value of the past");
    value.length(17);
    try {
      rio->write(writer, value);
      expect(false, "a value that is too large is refused");
    } catch (const RM::WrongSize& e) {
      expect(e.requested == 17 && e.limit == 16, "the refusal has the numbers");
    }
    try {
      rio->read_next(reader, 1000000, about);
      expect(false, "there is nothing new");
    } catch (const RM::TimedOut&) {
    }
    rio->detach(reader);
    rio->detach(writer);
    rio->destroy_area("from-omniorb");
    orb->destroy();
  } catch (const CORBA::Exception& e) {
    std::cerr << e._name() << std::endl;
    return 1;
  }
  std::cout << "good" << std::endl;
  return 0;
}
