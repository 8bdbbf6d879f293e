// A client of the OMG Event Service in C++ on omniORB: pushes ten numbers, pulls them, is pushed
// them.
#include <CosEventChannelAdmin.hh>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

class Consumer : public POA_CosEventComm::PushConsumer {
public:
  omni_mutex mutex;
  int count = 0;
  long sum = 0;
  void push(const CORBA::Any& data) override {
    CORBA::Long value;
    omni_mutex_lock lock(mutex);
    if (data >>= value) { count++; sum += value; }
  }
  void disconnect_push_consumer() override {}
};

static int fail(const char* what) {
  std::printf("FAIL %s\n", what);
  return 1;
}

int main(int argc, char** argv) {
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    CosEventChannelAdmin::EventChannel_var channel = CosEventChannelAdmin::EventChannel::_narrow(object);
    if (CORBA::is_nil(channel)) return fail("it is no event channel");
    CORBA::Object_var root = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(root);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    manager->activate();

    Consumer* servant = new Consumer;
    CosEventComm::PushConsumer_var consumer = servant->_this();
    CosEventChannelAdmin::ConsumerAdmin_var consumers = channel->for_consumers();
    CosEventChannelAdmin::SupplierAdmin_var suppliers = channel->for_suppliers();
    CosEventChannelAdmin::ProxyPushSupplier_var to_push = consumers->obtain_push_supplier();
    to_push->connect_push_consumer(consumer);
    bool twice = false;
    try { to_push->connect_push_consumer(consumer); }
    catch (const CosEventChannelAdmin::AlreadyConnected&) { twice = true; }
    if (!twice) return fail("connected twice");
    CosEventChannelAdmin::ProxyPullSupplier_var to_pull = consumers->obtain_pull_supplier();
    to_pull->connect_pull_consumer(CosEventComm::PullConsumer::_nil());
    CosEventChannelAdmin::ProxyPushConsumer_var from_push = suppliers->obtain_push_consumer();
    from_push->connect_push_supplier(CosEventComm::PushSupplier::_nil());

    for (CORBA::Long i = 1; i <= 10; i++) {
      CORBA::Any any;
      any <<= i;
      from_push->push(any);
    }
    for (CORBA::Long i = 1; i <= 10; i++) {
      CORBA::Any_var any = to_pull->pull();
      CORBA::Long value = 0;
      if (!(any.in() >>= value) || value != i) return fail("pulled something else");
    }
    CORBA::Boolean more = true;
    CORBA::Any_var none = to_pull->try_pull(more);
    if (more) return fail("there was more to pull");
    for (int i = 0; i < 2000; i++) {
      { omni_mutex_lock lock(servant->mutex); if (servant->count == 10) break; }
      usleep(5000);
    }
    omni_mutex_lock lock(servant->mutex);
    if (servant->count != 10 || servant->sum != 55) return fail("was not pushed ten numbers");
    to_pull->disconnect_pull_supplier();
    bool gone = false;
    try { to_pull->pull(); } catch (const CORBA::OBJECT_NOT_EXIST&) { gone = true; }
    catch (const CosEventComm::Disconnected&) { gone = true; }
    if (!gone) return fail("pulled after disconnecting");
    std::printf("ok\n");
    std::fflush(stdout);
    std::_Exit(0);
  } catch (const CORBA::Exception& e) {
    std::printf("FAIL %s\n", e._name());
    return 1;
  }
}
