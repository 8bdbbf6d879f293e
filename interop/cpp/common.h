// What server and client share: the command line of the contract (interop/README.md) and its
// translation to omniORB.
#ifndef INTEROP_COMMON_H
#define INTEROP_COMMON_H

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <omniORB4/Naming.hh>

#include "interop.hh"

struct Options {
  std::string ior_file, ns, name, ior, only, giop, port, tls, unix_path;
  bool utf8 = false, bidir = false, interleave = false;
  std::vector<std::string> orb_args;  // in order, after the ones that come from the options above
};

// Takes the contract's options out of argv; what is left goes to the ORB. Exits with 2 on a wrong
// command line.
Options parse_options(int argc, char** argv, bool server);

// ORB_init with the options translated (GIOP version, codesets, message limit, bidirectional
// connections).
CORBA::ORB_ptr init_orb(const Options& options, bool server);

// A child POA. Its references may be called back over the caller's own connection.
PortableServer::POA_ptr bidirectional_poa(CORBA::ORB_ptr orb, PortableServer::POA_ptr root);

// corbaname-style path "a/b" to a CosNaming name.
CosNaming::Name to_name(const std::string& path);

// Names of all cases in the order they run.
extern const std::vector<std::string> CASES;

#endif
