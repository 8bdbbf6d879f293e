// The omniORB client of the interoperability tests. Contract: interop/README.md.
#include <unistd.h>

#include <algorithm>
#include <set>

#include "check.h"

namespace {

std::set<std::string> split(const std::string& list) {
  std::set<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.insert(part);
  return parts;
}

std::string describe(const CORBA::SystemException& e) {
  std::ostringstream text;
  const char* minor = e.NP_minorString();
  text << e._name() << " minor 0x" << std::hex << e.minor() << (minor ? std::string(" ") + minor : "") << " completed "
       << (e.completed() == CORBA::COMPLETED_YES ? "yes" : e.completed() == CORBA::COMPLETED_NO ? "no" : "maybe");
  return text.str();
}

std::string why_not(const Options& o, const std::string& name, const std::set<std::string>& server_lacks) {
  if (name == "attribute_exceptions") return "omniidl 4.2 has no getraises";
  if (server_lacks.count(name)) return "the server does not support it";
  if (name == "naming") return o.ns.empty() ? "needs --ns" : "";
  if (o.ior.empty()) return "needs --ior";
  if (name == "utf8_strings" && !o.utf8) return "needs --utf8";
  if (name == "bidirectional" && !o.bidir) return "needs --bidir";
  if (name == "interleaving" && !o.interleave) return "needs --interleave";
  if (name == "bidirectional" && !o.giop.empty() && o.giop != "1.2") return "GIOP 1.2 only";
  if ((name.compare(0, 4, "wide") == 0 || name == "bounded_wides") && o.giop == "1.0") return "GIOP 1.0 has no wide characters";
  if (o.giop == "1.1" && (name == "large" || name == "parallel" || name.find("wide") != std::string::npos))
    return "the peers differ in fragments and wide characters of GIOP 1.1";
  return "";
}

int run_all(const Options& options) {
  CORBA::ORB_var orb = init_orb(options, false);
  CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var root = PortableServer::POA::_narrow(object);
  PortableServer::POAManager_var manager = root->the_POAManager();
  manager->activate();
  Interop::Suite_var suite;
  std::set<std::string> server_lacks;
  if (!options.ior.empty()) {
    object = orb->string_to_object(options.ior.c_str());
    suite = Interop::Suite::_narrow(object);
    if (CORBA::is_nil(suite)) {
      fprintf(stderr, "client: the reference is no Interop::Suite\n");
      return 2;
    }
    Interop::Names_var names = suite->unsupported();
    for (CORBA::ULong i = 0; i < names->length(); i++) server_lacks.insert((const char*)names[i]);
  }
  std::set<std::string> only = split(options.only);
  for (const std::string& name : only)
    if (std::find(CASES.begin(), CASES.end(), name) == CASES.end()) {
      fprintf(stderr, "client: no case %s\n", name.c_str());
      return 2;
    }
  int passed = 0, failed = 0, skipped = 0;
  auto fail = [&](const std::string& name, const std::string& reason) {
    failed++;
    printf("FAIL %s %s\n", name.c_str(), reason.c_str());
  };
  for (const std::string& name : CASES) {
    if (!only.empty() && !only.count(name)) continue;
    std::string reason = why_not(options, name, server_lacks);
    if (!reason.empty()) {
      skipped++;
      printf("skip %s %s\n", name.c_str(), reason.c_str());
      continue;
    }
    Run run{orb, root, options, suite, name};
    try {
      if (!run_value_case(run) && !run_object_case(run) && !run_naming_case(run)) throw Failure{"not written"};
      passed++;
      printf("ok %s\n", name.c_str());
    } catch (const Skip& s) {
      skipped++;
      printf("skip %s %s\n", name.c_str(), s.reason.c_str());
    } catch (const Failure& f) {
      fail(name, f.reason);
    } catch (const CORBA::INV_OBJREF& e) {
      if (e.minor() == 0x4f4d0001 && name.find("wide") != std::string::npos) {
        skipped++;
        printf("skip %s the reference names no wide codeset\n", name.c_str());
      } else {
        fail(name, describe(e));
      }
    } catch (const CORBA::SystemException& e) {
      fail(name, describe(e));
    } catch (const CORBA::Exception& e) {
      fail(name, e._name());
    }
    fflush(stdout);
  }
  printf("done %d ok %d failed %d skipped\n", passed, failed, skipped);
  fflush(stdout);
  orb->destroy();
  return failed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse_options(argc, argv, false);
  try {
    return run_all(options);
  } catch (const CORBA::SystemException& e) {
    fprintf(stderr, "client: %s\n", describe(e).c_str());
  } catch (const CORBA::Exception& e) {
    fprintf(stderr, "client: %s\n", e._name());
  }
  return 2;
}
