// Servants of the groups about objects: references, exceptions, attributes, oneways, call-backs,
// forwards, time.
#ifndef INTEROP_SERVANTS_OBJECTS_H
#define INTEROP_SERVANTS_OBJECTS_H

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "common.h"
#include "echo.h"

using namespace Interop;

// Makes Things; shared by the groups that hand references out.
Thing_ptr new_thing(PortableServer::POA_ptr poa, const char* id);

struct ReferencesServant : POA_Interop::References {
  ECHO_COUNTED(Thing_ptr, thing, Thing_out, Thing::_duplicate)
  ECHO_COUNTED(CORBA::Object_ptr, object, CORBA::Object_out, CORBA::Object::_duplicate)
  ECHO_VARIABLE(Things, things)
  ECHO_VARIABLE(Link, link)
  char* id_of(Thing_ptr a) override { return CORBA::is_nil(a) ? CORBA::string_dup("nil") : a->id(); }
};

struct FactoriesServant : POA_Interop::Factories {
  PortableServer::POA_var poa;
  explicit FactoriesServant(PortableServer::POA_ptr p) : poa(PortableServer::POA::_duplicate(p)) {}
  Thing_ptr create(const char* name) override { return new_thing(poa, name); }
  Thing_ptr nobody() override { return Thing::_nil(); }
  Things* create_many(const Names& them) override {
    Things_var result = new Things;
    result->length(them.length());
    for (CORBA::ULong i = 0; i < them.length(); i++) result[i] = new_thing(poa, them[i]);
    return result._retn();
  }
};

// One template for Base, Left, Right and Bottom: what they share is Base.
template <class Skeleton>
struct BaseServant : virtual Skeleton {
  std::atomic<CORBA::Long> value{0};
  char* base_name() override { return CORBA::string_dup("base"); }
  CORBA::Long level() override { return value; }
  void level(CORBA::Long v) override { value = v; }
};
struct BottomServant : BaseServant<POA_Interop::Bottom> {
  char* left_name() override { return CORBA::string_dup("left"); }
  char* right_name() override { return CORBA::string_dup("right"); }
  char* bottom_name() override { return CORBA::string_dup("bottom"); }
};

struct InheritanceServant : POA_Interop::Inheritance {
  Base_var only_base;
  Bottom_var bottom;
  InheritanceServant() {
    only_base = (new BaseServant<POA_Interop::Base>)->_this();
    bottom = (new BottomServant)->_this();
  }
  Base_ptr plain() override { return Base::_duplicate(only_base); }
  Base_ptr as_base() override { return Base::_duplicate(bottom); }
  Left_ptr as_left() override { return Left::_duplicate(bottom); }
  Right_ptr as_right() override { return Right::_duplicate(bottom); }
  Bottom_ptr as_bottom() override { return Bottom::_duplicate(bottom); }
};

struct UserExceptionsServant : POA_Interop::UserExceptions {
  void raise_empty() override { throw Empty(); }
  CORBA::Long raise_plain(CORBA::Long code, const char* why, CORBA::String_out b) override {
    if (code != 0) throw Plain(code, why);
    b = CORBA::string_dup(why);
    return 1;
  }
  void raise_rich(Colour paint, const Mixed& detail, const Doubles& samples, const OverLong& choice) override {
    throw Rich(paint, detail, samples, choice);
  }
};

struct SystemExceptionsServant : POA_Interop::SystemExceptions {
  void raise_system(const char* name, CORBA::ULong minor, CORBA::ULong completed) override;
  void raise_native() override { throw std::runtime_error("no CORBA exception"); }
};

struct AttributesServant : POA_Interop::Attributes {
  std::mutex lock;
  CORBA::ULong count = 0;
  CORBA::String_var text;
  Mixed mixed;
  Colour colour = red;
  AttributesServant() : text(CORBA::string_dup("")) {}
  CORBA::ULong changes() override { std::lock_guard<std::mutex> g(lock); return count; }
  char* label() override {
    std::lock_guard<std::mutex> g(lock);
    return CORBA::string_dup(text);
  }
  void label(const char* v) override {
    std::lock_guard<std::mutex> g(lock);
    text = CORBA::string_dup(v);
    count++;
  }
  Mixed* detail() override {
    std::lock_guard<std::mutex> g(lock);
    return new Mixed(mixed);
  }
  void detail(const Mixed& v) override {
    std::lock_guard<std::mutex> g(lock);
    mixed = v;
  }
  Colour paint() override { std::lock_guard<std::mutex> g(lock); return colour; }
  void paint(Colour v) override { std::lock_guard<std::mutex> g(lock); colour = v; }

};

struct OnewaysServant : POA_Interop::Oneways {
  std::atomic<CORBA::LongLong> sum{0};
  void add(CORBA::Long amount) override { sum += amount; }
  void send(const Octets& data) override { sum += data.length(); }
  void ping() override { sum += 1; }
  CORBA::LongLong total() override { return sum; }
  void reset() override { sum = 0; }
};

struct CallbacksServant : POA_Interop::Callbacks {
  CORBA::Long call_back(Receiver_ptr to, const char* text, CORBA::Long times) override {
    CORBA::Long right = 0;
    for (CORBA::Long i = 0; i < times; i++) {
      CORBA::String_var answer = to->receive(text, i);
      if (std::string(answer.in()) == std::string(text) + ":" + std::to_string(i)) right++;
    }
    return right;
  }
  void poke_back(Receiver_ptr to, CORBA::Long number) override { to->poke(number); }
};

// The POA "moved": its locator answers each request for an object with a forward to the Thing of
// the same id.
class MovedLocator : public virtual PortableServer::ServantLocator, public virtual CORBA::LocalObject {
 public:
  std::atomic<CORBA::ULong> forwards{0};
  explicit MovedLocator(PortableServer::POA_ptr things) : things_(PortableServer::POA::_duplicate(things)) {}
  PortableServer::Servant preinvoke(const PortableServer::ObjectId& oid, PortableServer::POA_ptr, const char*,
                                    PortableServer::ServantLocator::Cookie&) override;
  void postinvoke(const PortableServer::ObjectId&, PortableServer::POA_ptr, const char*,
                  PortableServer::ServantLocator::Cookie, PortableServer::Servant) override {}
  void expect(const std::string& key, Thing_ptr target) {
    std::lock_guard<std::mutex> g(lock_);
    targets_.emplace_back(key, Thing::_duplicate(target));
  }
  PortableServer::POA_ptr things() { return things_; }

 private:
  PortableServer::POA_var things_;
  std::mutex lock_;
  std::vector<std::pair<std::string, Thing_var>> targets_;
};

struct ForwardsServant : POA_Interop::Forwards {
  PortableServer::POA_var moved;
  MovedLocator* locator;
  std::atomic<unsigned> next{0};
  explicit ForwardsServant(PortableServer::POA_ptr root);
  Thing_ptr create(const char* name) override;
  CORBA::ULong made() override { return locator->forwards; }
};

struct SlowServant : POA_Interop::Slow {
  CORBA::ULong sleep_ms(CORBA::ULong ms) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    return ms;
  }
};

struct ContextsServant : POA_Interop::Contexts {
  char* lookup(const char* key, CORBA::Context_ptr context) override;
};

#endif
