// A client of the OMG's Event Service at --ior: supplier and consumer, push and pull. Prints what
// the client prints.
#include <deque>
#include <functional>
#include <utility>

#include "check.h"
#include "CosEventChannelAdmin.hh"

namespace {

using namespace CosEventChannelAdmin;

const unsigned PATIENCE_S = 60;

CORBA::Any number(CORBA::Long value) {
  CORBA::Any any;
  any <<= value;
  return any;
}

CORBA::Long number_in(const CORBA::Any& any) {
  CORBA::Long value = 0;
  if (!(any >>= value)) throw Failure{"the event is no number"};
  return value;
}

// Keeps what it is pushed.
class Consumer : public POA_CosEventComm::PushConsumer {
 public:
  Consumer() : changed_(&mutex_) {}

  void push(const CORBA::Any& data) override {
    omni_mutex_lock lock(mutex_);
    got_.push_back(data);
    changed_.signal();
  }

  void disconnect_push_consumer() override {
    omni_mutex_lock lock(mutex_);
    ended_ = true;
    changed_.signal();
  }

  CORBA::Any next() {
    omni_mutex_lock lock(mutex_);
    wait([this] { return !got_.empty(); }, "nothing was pushed");
    CORBA::Any any = got_.front();
    got_.pop_front();
    return any;
  }

  bool is_empty() {
    omni_mutex_lock lock(mutex_);
    return got_.empty();
  }

  void wait_for_end() {
    omni_mutex_lock lock(mutex_);
    wait([this] { return ended_; }, "was not told of the end");
  }

 private:
  void wait(const std::function<bool()>& so, const char* otherwise) {
    unsigned long s, ns;
    omni_thread::get_time(&s, &ns, PATIENCE_S);
    while (!so())
      if (!changed_.timedwait(s, ns)) throw Failure{otherwise};
  }

  omni_mutex mutex_;
  omni_condition changed_;
  std::deque<CORBA::Any> got_;
  bool ended_ = false;
};

// Has the numbers from 1 to a last one.
class Supplier : public POA_CosEventComm::PullSupplier {
 public:
  explicit Supplier(CORBA::Long last) : last_(last) {}

  CORBA::Any* pull() override { throw CosEventComm::Disconnected(); }

  CORBA::Any* try_pull(CORBA::Boolean& has) override {
    omni_mutex_lock lock(mutex_);
    has = next_ <= last_;
    return new CORBA::Any(number(has ? next_++ : 0));
  }

  void disconnect_pull_supplier() override {}

 private:
  omni_mutex mutex_;
  CORBA::Long last_, next_ = 1;
};

struct Events {
  CORBA::ORB_ptr orb;
  EventChannel_ptr channel;

  ProxyPushSupplier_var connect(Consumer& consumer) const {
    ConsumerAdmin_var admin = channel->for_consumers();
    ProxyPushSupplier_var proxy = admin->obtain_push_supplier();
    CosEventComm::PushConsumer_var reference = consumer._this();
    proxy->connect_push_consumer(reference);
    return proxy;
  }

  ProxyPushConsumer_var supplier() const {
    SupplierAdmin_var admin = channel->for_suppliers();
    ProxyPushConsumer_var proxy = admin->obtain_push_consumer();
    proxy->connect_push_supplier(CosEventComm::PushSupplier::_nil());
    return proxy;
  }

  ProxyPullSupplier_var to_pull_from() const {
    ConsumerAdmin_var admin = channel->for_consumers();
    ProxyPullSupplier_var proxy = admin->obtain_pull_supplier();
    proxy->connect_pull_consumer(CosEventComm::PullConsumer::_nil());
    return proxy;
  }

  void push_to_push() const {
    Consumer& one = *new Consumer;
    Consumer& two = *new Consumer;
    ProxyPushSupplier_var first = connect(one), second = connect(two);
    ProxyPushConsumer_var from = supplier();
    for (CORBA::Long i = 1; i <= 20; i++) from->push(number(i));
    for (CORBA::Long i = 1; i <= 20; i++) {
      EXPECT(number_in(one.next()) == i);
      EXPECT(number_in(two.next()) == i);
    }
    first->disconnect_push_supplier();
    from->push(number(21));
    EXPECT(number_in(two.next()) == 21);
    EXPECT(one.is_empty());
    second->disconnect_push_supplier();
    from->disconnect_push_consumer();
  }

  void event_values() const {
    Consumer& consumer = *new Consumer;
    ProxyPushSupplier_var proxy = connect(consumer);
    ProxyPushConsumer_var from = supplier();
    // In ISO 8859-1, which is this client's.
    const char* greeting = "gr\xfc\xdf" "e";
    CORBA::Any text, wide, structure, nested, object;
    text <<= greeting;
    wide <<= L"\u6642\u9593";
    CosNaming::NameComponent name;
    name.id = "pump", name.kind = "sensor";
    structure <<= name;
    nested <<= structure;
    object <<= (CORBA::Object_ptr)channel;
    for (const CORBA::Any* any : {&text, &wide, &structure, &nested, &object}) from->push(*any);

    const char* narrow;
    const CORBA::WChar* broad;
    const CosNaming::NameComponent* component;
    const CORBA::Any* inner;
    CORBA::Object_var same;
    CORBA::Any got = consumer.next();
    EXPECT((got >>= narrow) && strcmp(narrow, greeting) == 0);
    got = consumer.next();
    EXPECT((got >>= broad) && wcscmp(broad, L"\u6642\u9593") == 0);
    got = consumer.next();
    EXPECT((got >>= component) && strcmp(component->id, "pump") == 0 && strcmp(component->kind, "sensor") == 0);
    got = consumer.next();
    EXPECT((got >>= inner) && (*inner >>= component) && strcmp(component->id, "pump") == 0);
    got = consumer.next();
    EXPECT((got >>= CORBA::Any::to_object(same.out())) && channel->_is_equivalent(same));
    proxy->disconnect_push_supplier();
    from->disconnect_push_consumer();
  }

  void push_to_pull() const {
    ProxyPullSupplier_var proxy = to_pull_from();
    ProxyPushConsumer_var from = supplier();
    CORBA::Boolean has = true;
    CORBA::Any_var any = proxy->try_pull(has);
    EXPECT(!has);
    for (CORBA::Long i = 1; i <= 10; i++) from->push(number(i));
    for (CORBA::Long i = 1; i <= 10; i++) {
      any = proxy->pull();
      EXPECT(number_in(any) == i);
    }
    from->push(number(11));
    any = proxy->try_pull(has);
    EXPECT(has && number_in(any) == 11);
    proxy->disconnect_pull_supplier();
    bool gone = false;
    // One or the other, depending on which is quicker.
    try {
      any = proxy->pull();
    } catch (const CosEventComm::Disconnected&) {
      gone = true;
    } catch (const CORBA::OBJECT_NOT_EXIST&) {
      gone = true;
    }
    EXPECT(gone);
    from->disconnect_push_consumer();
  }

  void pull_to_push_and_pull() const {
    Consumer& consumer = *new Consumer;
    ProxyPushSupplier_var pushed = connect(consumer);
    ProxyPullSupplier_var pulled = to_pull_from();
    SupplierAdmin_var admin = channel->for_suppliers();
    ProxyPullConsumer_var asking = admin->obtain_pull_consumer();
    CosEventComm::PullSupplier_var numbers = (new Supplier(5))->_this();
    asking->connect_pull_supplier(numbers);
    for (CORBA::Long i = 1; i <= 5; i++) {
      CORBA::Any_var any = pulled->pull();
      EXPECT(number_in(any) == i);
      EXPECT(number_in(consumer.next()) == i);
    }
    asking->disconnect_pull_consumer();
    pulled->disconnect_pull_supplier();
    pushed->disconnect_push_supplier();
  }

  void event_refusals() const {
    Consumer& consumer = *new Consumer;
    ProxyPushSupplier_var proxy = connect(consumer);
    CosEventComm::PushConsumer_var reference = consumer._this();
    EXPECT_THROW(proxy->connect_push_consumer(reference), AlreadyConnected, );
    SupplierAdmin_var suppliers = channel->for_suppliers();
    ProxyPushConsumer_var unconnected = suppliers->obtain_push_consumer();
    EXPECT_THROW(unconnected->push(number(1)), CosEventComm::Disconnected, );
    ConsumerAdmin_var consumers = channel->for_consumers();
    ProxyPushSupplier_var unconnected_supplier = consumers->obtain_push_supplier();
    EXPECT_THROW(unconnected_supplier->connect_push_consumer(CosEventComm::PushConsumer::_nil()),
                 CORBA::BAD_PARAM, );
    ProxyPullConsumer_var asking = suppliers->obtain_pull_consumer();
    EXPECT_THROW(asking->connect_pull_supplier(CosEventComm::PullSupplier::_nil()), CORBA::BAD_PARAM, );
    proxy->disconnect_push_supplier();
  }

  // The last one, since nothing works after it.
  void channel_destroyed() const {
    Consumer& consumer = *new Consumer;
    ProxyPushSupplier_var proxy = connect(consumer);
    channel->destroy();
    consumer.wait_for_end();
  }
};

// Why a case failed; empty when it did not.
std::string reason(const std::function<void()>& run) {
  try {
    run();
    return "";
  } catch (const Failure& f) {
    return f.reason;
  } catch (const CORBA::Exception& e) {
    return e._name();
  }
}

int run_all(Options options) {
  // Consumers are called back.
  options.orb_args.insert(options.orb_args.end(), {"-ORBendPoint", "giop:tcp:127.0.0.1:"});
  CORBA::ORB_var orb = init_orb(options, false);
  CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var root = PortableServer::POA::_narrow(object);
  PortableServer::POAManager_var manager = root->the_POAManager();
  manager->activate();
  object = orb->string_to_object(options.ior.c_str());
  EventChannel_var channel = EventChannel::_narrow(object);
  if (CORBA::is_nil(channel)) {
    fprintf(stderr, "events: the reference is no event channel\n");
    return 2;
  }
  Events events{orb, channel};
  const std::vector<std::pair<const char*, void (Events::*)() const>> cases = {
      {"push_to_push", &Events::push_to_push},
      {"event_values", &Events::event_values},
      {"push_to_pull", &Events::push_to_pull},
      {"pull_to_push_and_pull", &Events::pull_to_push_and_pull},
      {"event_refusals", &Events::event_refusals},
      {"channel_destroyed", &Events::channel_destroyed},
  };
  int failed = 0;
  for (const auto& one : cases) {
    std::string why = reason([&] { (events.*one.second)(); });
    failed += !why.empty();
    if (why.empty()) printf("ok %s\n", one.first);
    else printf("FAIL %s %s\n", one.first, why.c_str());
    fflush(stdout);
  }
  printf("done %d ok %d failed 0 skipped\n", (int)cases.size() - failed, failed);
  fflush(stdout);
  // Servants may still be called: nothing is taken apart.
  std::_Exit(failed ? 1 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse_options(argc, argv, false);
  try {
    return run_all(options);
  } catch (const CORBA::Exception& e) {
    fprintf(stderr, "events: %s\n", e._name());
  }
  return 2;
}
