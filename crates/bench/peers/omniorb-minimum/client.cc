// The smallest client of omniORB for the footprint experiment: calls the reference that is its
// argument, says so, and waits for the end of its input.
#include <unistd.h>

#include <cstdio>

#include "lamp.hh"

int main(int argc, char** argv) {
  CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
  CORBA::Object_var object = orb->string_to_object(argv[1]);
  Minimum::Lamp_var lamp = Minimum::Lamp::_narrow(object);
  CORBA::Boolean before = lamp->turn(true);
  printf("it was %s, and has been turned %u times\n", before ? "on" : "off", unsigned(lamp->turns()));
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}
