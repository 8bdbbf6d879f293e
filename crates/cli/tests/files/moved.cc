// Lists the naming context of a reference, and again after each line of standard input.
#include <iostream>
#include <string>
#include <omniORB4/CORBA.h>
#include <omniORB4/Naming.hh>

int main(int argc, char** argv) {
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    CosNaming::NamingContext_var context = CosNaming::NamingContext::_narrow(object);
    std::string line;
    do {
      CosNaming::BindingList_var list;
      CosNaming::BindingIterator_var rest;
      context->list(10, list, rest);
      std::cout << "called " << list[0].binding_name[0].id << std::endl;
    } while (std::getline(std::cin, line));
  } catch (CORBA::Exception& exception) {
    std::cout << exception._name() << std::endl;
    return 1;
  }
}
