// An application of omniORB with RIO in its own address space. It prints the object's reference,
// for clients of any ORB, and uses the object itself, which is a function call.
#include "rio.hpp"

#include <iostream>

int main(int argc, char** argv) {
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    if (argc != 2) {
      std::cerr << "the socket of the node's server is missing" << std::endl;
      return 2;
    }
    isorb_crm_session session{0};
    if (isorb_crm_open(ISORB_CRM_VERSION, argv[1], 10'000'000'000, &session) != ISORB_CRM_OK) {
      std::cerr << isorb_crm_error_text() << std::endl;
      return 1;
    }
    CORBA::Object_var root = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(root);
    PortableServer::Servant_var<Rio> servant = new Rio(session);
    PortableServer::ObjectId_var id = poa->activate_object(servant);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    manager->activate();
    RM::RIO_var rio = servant->_this();

    // In this process: omniORB calls the servant without a message.
    RM::Area area;
    area.name = CORBA::string_dup("from-omniorb");
    area.size = 16;
    area.histories = 2;
    area.data.hash = 0;
    area.data.little_endian = true;
    rio->create_area(area);
    const RM::WriterQoS promise = {1000000, 0, 0};
    const RM::Handle writer = rio->map_writer("from-omniorb", promise);
    RM::Octets value;
    value.length(16);
    for (CORBA::Octet n = 1; n <= 3; ++n) {
      for (CORBA::ULong i = 0; i < 16; ++i) value[i] = n;
      rio->write(writer, value);
    }
    CORBA::String_var reference = orb->object_to_string(rio);
    std::cout << "READY " << reference << std::endl;
    orb->run();
  } catch (const CORBA::Exception& error) {
    std::cerr << error._name() << std::endl;
    return 1;
  }
  return 0;
}
