#include "common.h"

static void usage(bool server) {
  if (server)
    fprintf(stderr, "usage: server --ior-file FILE [--ns URL --name a/b] [--port N] [--tls DIR] [--unix PATH] [--giop 1.x] [--utf8] [--bidir] [ORB args]\n");
  else
    fprintf(stderr, "usage: client --ior IOR|URL [--ns URL] [--only CASE[,CASE]] [--tls DIR] [--unix PATH] [--giop 1.x] [--utf8] [--bidir] [--interleave] [ORB args]\n");
  exit(2);
}

Options parse_options(int argc, char** argv, bool server) {
  Options o;
  for (int i = 1; i < argc; i++) {
    std::string arg = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 >= argc) usage(server);
      return argv[++i];
    };
    if (arg == "--ior-file") o.ior_file = value();
    else if (arg == "--ior") o.ior = value();
    else if (arg == "--ns") o.ns = value();
    else if (arg == "--name") o.name = value();
    else if (arg == "--only") o.only = value();
    else if (arg == "--giop") o.giop = value();
    else if (arg == "--port") o.port = value();
    else if (arg == "--tls") o.tls = value();
    else if (arg == "--unix") o.unix_path = value();
    else if (arg == "--utf8") o.utf8 = true;
    else if (arg == "--bidir") o.bidir = true;
    else if (arg == "--interleave" && !server) o.interleave = true;
    else if (arg.compare(0, 2, "--") == 0) usage(server);
    else o.orb_args.push_back(arg);
  }
  if (server ? o.ior_file.empty() : (o.ior.empty() && o.ns.empty())) usage(server);
  return o;
}

CORBA::ORB_ptr init_orb(const Options& o, bool server) {
  // Large messages are part of the contract; omniORB's own limit is 2 MiB.
  std::vector<std::string> args = {"peer", "-ORBgiopMaxMsgSize", "33554432"};
  auto add = [&](const char* key, const std::string& value) { args.push_back(key), args.push_back(value); };
  const char* protocol = o.tls.empty() ? "giop:tcp:127.0.0.1:" : "giop:ssl:127.0.0.1:";
  if (!o.unix_path.empty()) {
    if (server) add("-ORBendPoint", "giop:unix:" + o.unix_path);
    add(server ? "-ORBserverTransportRule" : "-ORBclientTransportRule", "* unix");
  } else if (server || o.bidir) {
    add("-ORBendPoint", protocol + o.port);
  }
  if (!o.tls.empty()) {
    add("-ORBsslCAFile", o.tls + "/authority.pem");
    add("-ORBsslKeyFile", o.tls + "/peer.both");
    add("-ORBsslKeyPassword", "");
    add("-ORBsslVerifyMode", "peer,fail");
    if (server) add("-ORBserverTransportRule", "* ssl");
    else add("-ORBclientTransportRule", "* ssl");
  }
  if (!o.giop.empty()) add("-ORBmaxGIOPVersion", o.giop);
  if (o.utf8) add("-ORBnativeCharCodeSet", "UTF-8");
  if (o.bidir && server) {
    add("-ORBacceptBiDirectionalGIOP", "1");
    add("-ORBserverTransportRule", "* tcp,bidir");
  }
  if (o.bidir && !server) {
    add("-ORBofferBiDirectionalGIOP", "1");
    add("-ORBclientTransportRule", "* tcp,bidir");
  }
  if (!server) {
    add("-ORBsupportBootstrapAgent", "0");
    // A connection carries one call at a time unless told otherwise; case parallel wants both ways
    // of working.
    add("-ORBmaxGIOPConnectionPerServer", o.interleave ? "1" : "5");
    if (o.interleave) add("-ORBoneCallPerConnection", "0");
  }
  args.insert(args.end(), o.orb_args.begin(), o.orb_args.end());
  std::vector<char*> argv;
  for (auto& a : args) argv.push_back(const_cast<char*>(a.c_str()));
  int argc = (int)argv.size();
  argv.push_back(nullptr);
  CORBA::ORB_ptr orb = CORBA::ORB_init(argc, argv.data());
  if (argc > 1) {
    fprintf(stderr, "unknown argument: %s\n", argv[1]);
    exit(2);
  }
  return orb;
}

PortableServer::POA_ptr bidirectional_poa(CORBA::ORB_ptr orb, PortableServer::POA_ptr root) {
  CORBA::Any both;
  both <<= BiDirPolicy::BOTH;
  CORBA::PolicyList policies(1);
  policies.length(1);
  policies[0] = orb->create_policy(BiDirPolicy::BIDIRECTIONAL_POLICY_TYPE, both);
  PortableServer::POAManager_var manager = root->the_POAManager();
  return root->create_POA("bidirectional", manager, policies);
}

CosNaming::Name to_name(const std::string& path) {
  CosNaming::Name name;
  size_t start = 0;
  while (true) {
    size_t end = path.find('/', start);
    CORBA::ULong n = name.length();
    name.length(n + 1);
    name[n].id = path.substr(start, end == std::string::npos ? end : end - start).c_str();
    if (end == std::string::npos) return name;
    start = end + 1;
  }
}

const std::vector<std::string> CASES = {
    "scalars", "floats", "long_doubles", "strings", "utf8_strings", "wides", "bounded_wides", "wide_chars",
    "enums", "structs", "unions", "union_labels", "sequences", "arrays", "fixeds", "fixed_zeros",
    "recursive", "typedefs", "anys", "typecodes", "references", "factories", "inheritance", "objects",
    "user_exceptions", "system_exceptions", "attributes", "attribute_exceptions", "oneways", "callbacks",
    "bidirectional", "forwards", "timeouts", "large", "parallel", "interleaving", "contexts", "naming"};
