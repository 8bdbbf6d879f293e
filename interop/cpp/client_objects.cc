// Cases of the groups about objects.
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "check.h"

using namespace Interop;

namespace {

template <class T>
typename T::_ptr_type other_group(const Run& run, const char* name) {
  CORBA::Object_var object = run.suite->group(name);
  return T::_narrow(object);
}

template <class Condition>
bool within(int seconds, Condition condition) {
  for (int i = 0; i < seconds * 100; i++) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

std::string id_of(Thing_ptr thing) {
  if (CORBA::is_nil(thing)) return "nil";
  CORBA::String_var id = thing->id();
  return id.in();
}

void references(const Run& run) {
  References_var o = run.group<References>();
  Factories_var factories = other_group<Factories>(run, "factories");
  const char* names[] = {"first", "second", "nil"};
  Thing_var things[] = {factories->create("first"), factories->create("second"), Thing::_nil()};
  for (int i = 0; i < 3; i++) {
    int next = (i + 1) % 3;
    Thing_var b = Thing::_duplicate(things[next]), c;
    Thing_var r = o->echo_thing(things[i], b.inout(), c.out());
    EXPECT(id_of(r) == names[i] && id_of(b) == names[i] && id_of(c) == names[next]);
    CORBA::Object_var ob = CORBA::Object::_duplicate(things[next]), oc;
    CORBA::Object_var ores = o->echo_object(things[i], ob.inout(), oc.out());
    EXPECT(CORBA::is_nil(ores) == CORBA::is_nil(things[i]));
    if (!CORBA::is_nil(ores)) EXPECT(ores->_is_equivalent(things[i]));
    Thing_var narrowed = Thing::_narrow(oc);
    EXPECT(id_of(narrowed) == names[next]);
    CORBA::String_var id = o->id_of(things[i]);
    EXPECT(std::string(id.in()) == names[i]);
    Link link, other;
    link.label = "label";
    link.target = Thing::_duplicate(things[i]);
    other.label = "";
    other.target = Thing::_duplicate(things[next]);
    Link lb = other;
    Link_var lc;
    Link_var lr = o->echo_link(link, lb, lc.out());
    EXPECT(id_of(lr->target) == names[i] && id_of(lb.target) == names[i] && id_of(lc->target) == names[next]);
    EXPECT(std::string(lr->label) == "label" && std::string(lc->label) == "");
  }
  Things all;
  all.length(3);
  for (int i = 0; i < 3; i++) all[i] = Thing::_duplicate(things[i]);
  Things b;
  Things_var c;
  Things_var r = o->echo_things(all, b, c.out());
  EXPECT(r->length() == 3 && b.length() == 3 && c->length() == 0);
  for (int i = 0; i < 3; i++) EXPECT(id_of(r[i]) == names[i] && id_of(b[i]) == names[i]);
}

void factories(const Run& run) {
  Factories_var o = run.group<Factories>();
  Thing_var one = o->create("same"), two = o->create("same"), none = o->nobody();
  EXPECT(CORBA::is_nil(none));
  EXPECT(!one->_is_equivalent(two));
  EXPECT(one->add(5) == 5 && one->add(-7) == -2 && two->add(1) == 1);
  EXPECT(one->add(INT32_MAX) == INT32_MAX - 2LL && one->add(INT32_MAX) == 2LL * INT32_MAX - 2);
  one->destroy();
  EXPECT_THROW(one->add(1), CORBA::OBJECT_NOT_EXIST, );
  EXPECT(two->add(1) == 2);
  Names names;
  names.length(50);
  for (int i = 0; i < 50; i++) names[i] = std::to_string(i).c_str();
  Things_var many = o->create_many(names);
  EXPECT(many->length() == 50);
  for (int i = 0; i < 50; i++) EXPECT(id_of(many[i]) == std::to_string(i));
}

void inheritance(const Run& run) {
  Inheritance_var o = run.group<Inheritance>();
  Base_var plain = o->plain(), base = o->as_base();
  Left_var left = o->as_left();
  Right_var right = o->as_right();
  Bottom_var bottom = o->as_bottom();
  CORBA::String_var text = plain->base_name();
  EXPECT(std::string(text) == "base");
  Bottom_var narrowed = Bottom::_narrow(plain);
  EXPECT(CORBA::is_nil(narrowed));
  narrowed = Bottom::_narrow(base);
  EXPECT(!CORBA::is_nil(narrowed));
  text = narrowed->left_name();
  EXPECT(std::string(text) == "left");
  text = narrowed->right_name();
  EXPECT(std::string(text) == "right");
  text = narrowed->bottom_name();
  EXPECT(std::string(text) == "bottom");
  text = left->base_name();
  EXPECT(std::string(text) == "base");
  Right_var sideways = Right::_narrow(left);
  EXPECT(!CORBA::is_nil(sideways));
  text = sideways->right_name();
  EXPECT(std::string(text) == "right");
  bottom->level(41);
  EXPECT(left->level() == 41 && right->level() == 41 && base->level() == 41);
  plain->level(7);
  EXPECT(bottom->level() == 41 && plain->level() == 7);
}

void objects(const Run& run) {
  Factories_var factories = other_group<Factories>(run, "factories");
  Thing_var one = factories->create("one"), two = factories->create("two");
  EXPECT(one->_is_a("IDL:Interop/Thing:1.0"));
  EXPECT(one->_is_a("IDL:omg.org/CORBA/Object:1.0"));
  EXPECT(!one->_is_a("IDL:Interop/Factories:1.0"));
  EXPECT(!one->_non_existent());
  EXPECT(one->_is_equivalent(one) && !one->_is_equivalent(two));
  EXPECT(one->_hash(1000) <= 1000);
  one->destroy();
  EXPECT(one->_non_existent());
  CORBA::Object_var scalars = run.suite->group("scalars");
  Thing_var wrong = Thing::_unchecked_narrow(scalars);
  EXPECT_THROW(wrong->destroy(), CORBA::BAD_OPERATION, );
  CORBA::String_var text = run.orb->object_to_string(two);
  CORBA::Object_var again = run.orb->string_to_object(text);
  Thing_var thing = Thing::_narrow(again);
  EXPECT(id_of(thing) == "two");
  EXPECT_THROW(run.suite->group("no such group"), NoSuchGroup, EXPECT(std::string(e.name) == "no such group"));
}

void user_exceptions(const Run& run) {
  UserExceptions_var o = run.group<UserExceptions>();
  EXPECT_THROW(o->raise_empty(), Empty, );
  CORBA::String_var b;
  EXPECT(o->raise_plain(0, "fine", b.out()) == 1 && std::string(b) == "fine");
  EXPECT_THROW(o->raise_plain(-5, "reason", b.out()), Plain, EXPECT(e.code == -5 && std::string(e.why) == "reason"));
  EXPECT_THROW(o->raise_plain(INT32_MIN, "", b.out()), Plain, EXPECT(e.code == INT32_MIN && std::string(e.why) == ""));
  Mixed detail;
  detail.name = "detail";
  detail.paint = green;
  detail.at.x = 1;
  detail.at.y = 2;
  detail.tail = 3;
  Doubles samples;
  samples.length(3);
  for (int i = 0; i < 3; i++) samples[i] = i / 4.0;
  OverLong choice;
  choice.text("choice");
  choice._d(2);
  EXPECT_THROW(o->raise_rich(blue, detail, samples, choice), Rich,
               EXPECT(e.paint == blue && bytes(e.detail) == bytes(detail) && bytes(e.samples) == bytes(samples) &&
                      bytes(e.choice) == bytes(choice)));
  EXPECT_THROW(o->raise_empty(), Empty, );
}

void system_exceptions(const Run& run) {
  SystemExceptions_var o = run.group<SystemExceptions>();
  // COMM_FAILURE and TRANSIENT with COMPLETED_NO are signs to an ORB to try again: they are sent as
  // maybe only. omniORB lacks INVALID_ACTIVITY, ACTIVITY_COMPLETED and ACTIVITY_REQUIRED.
  const char* names[] = {"UNKNOWN", "BAD_PARAM", "NO_MEMORY", "IMP_LIMIT", "COMM_FAILURE", "INV_OBJREF", "NO_PERMISSION",
                         "INTERNAL", "MARSHAL", "INITIALIZE", "NO_IMPLEMENT", "BAD_TYPECODE", "BAD_OPERATION", "NO_RESOURCES",
                         "NO_RESPONSE", "PERSIST_STORE", "BAD_INV_ORDER", "TRANSIENT", "FREE_MEM", "INV_IDENT", "INV_FLAG",
                         "INTF_REPOS", "BAD_CONTEXT", "OBJ_ADAPTER", "DATA_CONVERSION", "OBJECT_NOT_EXIST",
                         "TRANSACTION_REQUIRED", "TRANSACTION_ROLLEDBACK", "INVALID_TRANSACTION", "INV_POLICY",
                         "CODESET_INCOMPATIBLE", "REBIND", "TIMEOUT", "TRANSACTION_UNAVAILABLE", "TRANSACTION_MODE",
                         "BAD_QOS"};
  const CORBA::ULong minors[] = {0, 1, 0x4f4d0002, 0xfffffffe};
  int i = 0;
  for (const char* name : names) {
    for (CORBA::ULong completed = 0; completed < 3; completed++) {
      std::string text = name;
      bool retried = text == "COMM_FAILURE" || text == "TRANSIENT" || text == "OBJECT_NOT_EXIST" || text == "NO_RESPONSE";
      if (retried && completed != 2) continue;
      CORBA::ULong minor = minors[i++ % 4];
      bool thrown = false;
      try {
        o->raise_system(name, minor, completed);
      } catch (const CORBA::SystemException& e) {
        thrown = true;
        if (std::string(e._name()) != name || e.minor() != minor || (CORBA::ULong)e.completed() != completed) {
          std::ostringstream what;
          what << name << " minor " << minor << " completed " << completed << " came as " << e._name() << " minor " << e.minor()
               << " completed " << e.completed();
          throw Failure{what.str()};
        }
      }
      if (!thrown) throw Failure{std::string("no exception for ") + name};
    }
  }
  EXPECT_THROW(o->raise_system("NONSENSE", 5, 0), CORBA::BAD_PARAM, EXPECT(e.minor() == 0));
  EXPECT_THROW(o->raise_native(), CORBA::UNKNOWN, );
}

void attributes(const Run& run) {
  Attributes_var o = run.group<Attributes>();
  CORBA::ULong before = o->changes();
  o->label("new label");
  CORBA::String_var text = o->label();
  EXPECT(std::string(text) == "new label");
  o->label("");
  text = o->label();
  EXPECT(std::string(text) == "" && o->changes() == before + 2);
  Mixed mixed;
  mixed.name = "attribute";
  mixed.paint = blue;
  mixed.at.x = -1;
  mixed.at.y = 1;
  mixed.tail = 255;
  o->detail(mixed);
  Mixed_var back = o->detail();
  EXPECT(bytes(back.in()) == bytes(mixed));
  o->paint(green);
  EXPECT(o->paint() == green);
  o->paint(red);
  EXPECT(o->paint() == red);
}

void oneways(const Run& run) {
  Oneways_var o = run.group<Oneways>();
  o->reset();
  Octets data;
  data.length(1000);
  for (int i = 0; i < 1000; i++) data[i] = 1;
  for (int i = 0; i < 100; i++) {
    o->ping();
    o->add(i);
    o->send(data);
  }
  const CORBA::LongLong want = 100 + 4950 + 100000;
  within(10, [&] { return o->total() == want; });
  EXPECT(o->total() == want);
}

struct ReceiverServant : POA_Interop::Receiver {
  std::atomic<CORBA::Long> poked{0};
  char* receive(const char* text, CORBA::Long number) override {
    return CORBA::string_dup((std::string(text) + ":" + std::to_string(number)).c_str());
  }
  void poke(CORBA::Long number) override { poked = number; }
};

void call_back_through(const Run& run, PortableServer::POA_ptr poa) {
  Callbacks_var o = run.group<Callbacks>();
  PortableServer::Servant_var<ReceiverServant> servant = new ReceiverServant;
  PortableServer::ObjectId_var oid = poa->activate_object(servant);
  CORBA::Object_var object = poa->id_to_reference(oid);
  Receiver_var receiver = Receiver::_narrow(object);
  EXPECT(o->call_back(receiver, "hello", 10) == 10);
  EXPECT(o->call_back(receiver, std::string(run.options.giop == "1.1" ? 2000 : 20000, 'z').c_str(), 2) == 2);
  o->poke_back(receiver, 4711);
  EXPECT(within(10, [&] { return servant->poked == 4711; }));
  poa->deactivate_object(oid);
}

void callbacks(const Run& run) {
  if (run.options.bidir) throw Skip{"under --bidir the same is case bidirectional"};
  call_back_through(run, run.root);
}

void bidirectional(const Run& run) {
  PortableServer::POA_var poa = bidirectional_poa(run.orb, run.root);
  call_back_through(run, poa);
}

void forwards(const Run& run) {
  Forwards_var o = run.group<Forwards>();
  CORBA::ULong before = o->made();
  Thing_var moved = o->create("moved thing");
  EXPECT(moved->add(40) == 40);
  EXPECT(moved->add(2) == 42);
  EXPECT(id_of(moved) == "moved thing");
  EXPECT(o->made() > before);
  Thing_var other = o->create("another");
  EXPECT(id_of(other) == "another" && other->add(1) == 1 && moved->add(0) == 42);
  Thing_var checked = o->create("checked");
  EXPECT(!checked->_non_existent());
  EXPECT(checked->_is_a("IDL:Interop/Thing:1.0"));
}

void timeouts(const Run& run) {
  Slow_var o = run.group<Slow>();
  EXPECT(o->sleep_ms(0) == 0);
  omniORB::setClientCallTimeout(o, 300);
  auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(o->sleep_ms(3000), CORBA::TIMEOUT, );
  EXPECT(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(290));
  omniORB::setClientCallTimeout(o, 0);
  EXPECT(o->sleep_ms(20) == 20);
}

Octets pattern(CORBA::ULong length) {
  Octets data;
  data.length(length);
  for (CORBA::ULong i = 0; i < length; i++) data[i] = i % 251;
  return data;
}

void large(const Run& run) {
  Large_var o = run.group<Large>();
  // Around the sizes where ORBs cut fragments, and the 12 MiB of the contract.
  for (CORBA::ULong length : {0u, 1u, 7u, 8100u, 8191u, 8192u, 8193u, 65535u, 65536u, 1048576u, 12582912u}) {
    Octets a = pattern(length), b = pattern(3);
    Octets_var c;
    Octets_var r = o->echo_octets(a, b, c.out());
    EXPECT(r->length() == length && b.length() == length && c->length() == 3);
    EXPECT(length == 0 || (memcmp(r->get_buffer(), a.get_buffer(), length) == 0 && memcmp(b.get_buffer(), a.get_buffer(), length) == 0));
    r = o->pattern(length);
    EXPECT(r->length() == length && (length == 0 || memcmp(r->get_buffer(), a.get_buffer(), length) == 0));
    CORBA::ULongLong sum = 0;
    for (CORBA::ULong i = 0; i < length; i++) sum += a[i];
    EXPECT(o->sum(a) == sum);
  }
  CHECK_STRING(o, echo_string, {std::string(8185, 'a'), std::string(1048576, 'b'), ""});
  Doubles doubles;
  doubles.length(131072);
  for (CORBA::ULong i = 0; i < doubles.length(); i++) doubles[i] = i * 0.5;
  CHECK_VARIABLE(o, echo_doubles, Doubles, {doubles, Doubles()});
  Mixeds mixeds;
  mixeds.length(20000);
  for (CORBA::ULong i = 0; i < mixeds.length(); i++) {
    mixeds[i].name = std::string(i % 40, 'n').c_str();
    mixeds[i].paint = (Colour)(i % 3);
    mixeds[i].at.x = i;
    mixeds[i].at.y = -(CORBA::Long)i;
    mixeds[i].tail = (CORBA::Octet)i;
  }
  CHECK_VARIABLE(o, echo_mixeds, Mixeds, {mixeds, Mixeds()});
}

void parallel(const Run& run) {
  Large_var o = run.group<Large>();
  std::mutex lock;
  std::string problem;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < 40; i++) {
          CORBA::ULong length = i % 2 ? 16 + t : 60000 + 1000 * t + i;
          Octets_var data = o->pattern(length);
          CORBA::ULongLong want = 0;
          for (CORBA::ULong k = 0; k < length; k++) want += k % 251;
          if (data->length() != length || o->sum(data) != want) throw Failure{"an answer belongs to another call"};
        }
      } catch (const Failure& f) {
        std::lock_guard<std::mutex> g(lock);
        problem = f.reason;
      } catch (const CORBA::Exception& e) {
        std::lock_guard<std::mutex> g(lock);
        problem = e._name();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (!problem.empty()) throw Failure{problem};
}

// Threads with calls on one connection: the reply to the first call is the last.
void interleaving(const Run& run) {
  Slow_var o = other_group<Slow>(run, "timeouts");
  // A machine that is busy tells nothing with the first time.
  for (CORBA::ULong longest : {500u, 4000u, 16000u}) {
    std::atomic<int> answered(0), place(0);
    std::atomic<bool> wrong(false);
    auto call = [&](CORBA::ULong ms) {
      try {
        if (o->sleep_ms(ms) != ms) wrong = true;
      } catch (const CORBA::Exception&) {
        wrong = true;
      }
      return ++answered;
    };
    std::vector<std::thread> threads;
    threads.emplace_back([&] { place = call(longest); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (CORBA::ULong i = 1; i < 64; i++) threads.emplace_back([&, i] { call(i % 20); });
    for (std::thread& thread : threads) thread.join();
    if (wrong) throw Failure{"an answer belongs to another call, or is an exception"};
    if (place == 64) return;
  }
  throw Failure{"the calls of a connection are served one after the other"};
}

void contexts(const Run& run) {
  Contexts_var o = run.group<Contexts>();
  CORBA::Context_var root, context;
  run.orb->get_default_context(root.out());
  root->create_child("child", context.out());
  auto set = [&](const char* key, const char* value) {
    CORBA::Any any;
    any <<= value;
    context->set_one_value(key, any);
  };
  set("interop_one", "first");
  set("single", "alone");
  set("hidden", "not passed on");
  auto lookup = [&](const char* key) {
    CORBA::String_var text = o->lookup(key, context);
    return std::string(text.in());
  };
  EXPECT(lookup("interop_one") == "first");
  EXPECT(lookup("single") == "alone");
  EXPECT(lookup("hidden") == "");
}

}  // namespace

bool run_object_case(const Run& run) {
  static const std::map<std::string, void (*)(const Run&)> cases = {
      {"references", references},   {"factories", factories},   {"inheritance", inheritance}, {"objects", objects},
      {"user_exceptions", user_exceptions}, {"system_exceptions", system_exceptions}, {"attributes", attributes},
      {"oneways", oneways},         {"callbacks", callbacks},   {"bidirectional", bidirectional}, {"forwards", forwards},
      {"timeouts", timeouts},       {"large", large},           {"parallel", parallel},       {"interleaving", interleaving}, {"contexts", contexts}};
  auto found = cases.find(run.current);
  if (found == cases.end()) return false;
  found->second(run);
  return true;
}
