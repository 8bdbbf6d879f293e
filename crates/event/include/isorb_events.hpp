// Events of a channel in another process, for C++ programs on omniORB.
//
//   isorb::events::Channel channel(orb, "corbaloc::cockpit:4200/EventService");
//   auto display = channel.consume(isorb::events::Filter::of(16, 1),
//                                  [](const isorb::events::Event& e) { std::cout << e.text(); });
//   auto gps = channel.supplier();
//   gps.push(16, 1, "48.2N 16.3E");
//
// It is a thin layer over the stubs that omniidl makes:
//
//   omniidl -bcxx -Wbinline -I /usr/share/idl/omniORB idl/IsorbRtecEventChannelAdmin.idl
//   c++ -std=c++17 -I . -I crates/event/include program.cc IsorbRtecEventChannelAdminSK.cc
//       -lomniDynamic4 -lomniORB4 -lomnithread -lpthread
//
// A thread of each Channel probes the proxies at the channel, and at once after a push has failed.
// Where the channel was restarted, it connects consumers and suppliers anew; while the channel does
// not answer, it tries again after a growing delay. Suppliers number their events, and consumers
// count the numbers that did not arrive.
//
// Differences from isorb's RemoteChannel in Rust: omniORB tells no program that a connection has
// ended, so that a restart is noticed by the next probe; and a push is a oneway, so that `true`
// means that the connection took it, not that the channel has it.
//
// All functions may be called by any thread. Handlers run on threads of omniORB, and must not
// destroy their own Consumer.
#ifndef ISORB_EVENTS_HPP
#define ISORB_EVENTS_HPP

#include "IsorbRtecEventChannelAdmin.hh"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace isorb::events {

using namespace std::chrono_literals;

// Why a channel, consumer or supplier was not connected at first.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An event, while its handler runs: `data` belongs to the message.
struct Event {
  std::int32_t type = 0;
  std::int32_t source = 0;
  // In units of 100 ns; 0 if its supplier gave none.
  std::uint64_t creation_time = 0;
  const unsigned char* data = nullptr;
  std::size_t size = 0;
  // The number of the supplier, and of the event among those of its type and source; 0 if unknown.
  std::uint64_t supplier = 0;
  std::uint64_t number = 0;

  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
};

// Which events a consumer wants. The channel checks it.
class Filter {
 public:
  static Filter of(std::int32_t type, std::int32_t source) { return Filter({type, source, 0}); }
  static Filter of_type(std::int32_t type) { return of(type, 0); }
  static Filter from_source(std::int32_t source) { return of(0, source); }
  static Filter everything() { return of(14, 0); }
  // A time-out for each interval, and one if nothing came for so long (rounded to 100 ns).
  static Filter interval(std::chrono::nanoseconds period) { return Filter({5, 0, units(period)}); }
  static Filter deadline(std::chrono::nanoseconds limit) { return Filter({6, 0, units(limit)}); }
  // Events together, and one of several. The handler gets each event of a conjunction in turn.
  static Filter all_of(const std::vector<Filter>& filters) { return group(8, filters); }
  static Filter any_of(const std::vector<Filter>& filters) { return group(9, filters); }

 private:
  friend class Consumer;
  friend class Supplier;
  struct Term {
    std::int32_t type, source;
    std::uint64_t time;
  };
  explicit Filter(Term term) : terms_{term} {}
  static std::uint64_t units(std::chrono::nanoseconds time) {
    return static_cast<std::uint64_t>(time.count() + 99) / 100;
  }
  static Filter group(std::int32_t designator, const std::vector<Filter>& filters) {
    Filter all({designator, static_cast<std::int32_t>(filters.size()), 0});
    all.conjunction_ = designator == 8;
    for (const Filter& filter : filters) {
      all.terms_.insert(all.terms_.end(), filter.terms_.begin(), filter.terms_.end());
      all.conjunction_ = all.conjunction_ || filter.conjunction_;
    }
    return all;
  }
  std::vector<Term> terms_;
  // A conjunction keeps some events, so that gaps in their numbers say nothing.
  bool conjunction_ = false;
};

// What a consumer asks for besides its filter. Channels of isorb grant it; others refuse it.
struct ConsumerOptions {
  // The last so many events of each type and source that the channel keeps, before later ones; 0
  // for none. Needs a channel with a history (--keep-last). After an interruption the consumer asks
  // again, and leaves out numbered events up to the last one that it has had.
  std::uint32_t history_last = 0;
  // Their greatest age, rounded to 100 ns; 0 for any.
  std::chrono::nanoseconds history_age{0};
  // The shortest time between two events, rounded to 100 ns. Those that come sooner are dropped.
  std::chrono::nanoseconds min_separation{0};
  // A condition on the payload, such as "position.altitude > 300"; empty for none. The channel
  // evaluates it. The consumer then counts no lost events: the channel keeps some for itself.
  std::string where;
  // The type of the payload, for the condition: `_tc_Position` of the stubs (omniidl -Wba), or
  // CORBA::_tc_long. Suppliers push it as `encode` makes it.
  CORBA::TypeCode_var payload;
  // Once no event of a type and source came for so long (rounded to 100 ns), the consumer gets an
  // event of type 15 with this source, and the type as creation_time; 0 for never.
  std::chrono::nanoseconds instance_period{0};
};

// How a supplier competes with others for the types and sources that it pushes.
struct SupplierOptions {
  // The channel drops the events of a type and source of all but the strongest supplier. Without a
  // strength a supplier does not compete, and is always heard. With one, each push waits for the
  // channel's answer.
  std::optional<std::int32_t> strength;
  // Weaker suppliers are heard after so long without an event of this one (rounded to 100 ns); 0:
  // only when it has ended.
  std::chrono::nanoseconds lease{0};
};

// A value of an IDL type as the octets of an event: a CDR encapsulation, which conditions and
// isorb's typed payloads read.
template <class T>
std::string encode(const T& value) {
  cdrEncapsulationStream stream;
  value >>= stream;
  return {static_cast<const char*>(stream.bufPtr()), stream.bufSize()};
}
inline std::string encode(CORBA::Long value) {
  cdrEncapsulationStream stream;
  stream.marshalLong(value);
  return {static_cast<const char*>(stream.bufPtr()), stream.bufSize()};
}

// What a program may set before it connects.
struct Options {
  // The longest wait for a call to the channel.
  std::chrono::milliseconds timeout = 2s;
  // How often proxies are probed while nothing is wrong.
  std::chrono::milliseconds probe = 1s;
  // The longest delay between two attempts to connect again. The first delay is 10 ms.
  std::chrono::milliseconds longest_backoff = 500ms;
  // Is called for each change, by a thread of the channel or of omniORB.
  std::function<void(const std::string&)> notice = [](const std::string& what) {
    std::clog << "isorb::events: " << what << std::endl;
  };
};

namespace detail {

namespace comm = RtecEventComm;
namespace admin = RtecEventChannelAdmin;
namespace numbered = IsorbRtecEventChannelAdmin;

inline std::string text_of(const CORBA::Exception& exception) {
  const auto* system = CORBA::SystemException::_downcast(const_cast<CORBA::Exception*>(&exception));
  const char* minor = system ? system->NP_minorString() : nullptr;
  return std::string(exception._name()) + (minor ? std::string(" ") + minor : std::string());
}

// A consumer or supplier that is to stay connected.
struct Registration {
  virtual ~Registration() = default;
  // Returns true if the proxy is gone. Throws if the channel does not answer.
  virtual bool gone() = 0;
  virtual void connect(admin::EventChannel_ptr channel) = 0;
};

// The connection to a channel, and the thread that keeps it.
class Link {
 public:
  Link(CORBA::ORB_ptr orb, std::string url, Options options)
      : orb_(CORBA::ORB::_duplicate(orb)), url_(std::move(url)), options_(std::move(options)) {
    CORBA::Object_var object = orb_->resolve_initial_references("RootPOA");
    poa_ = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = poa_->the_POAManager();
    manager->activate();
    resolve();
    thread_ = std::thread([this] { run(); });
  }
  ~Link() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  PortableServer::POA_ptr poa() { return poa_; }

  admin::EventChannel_var resolve() {
    try {
      CORBA::Object_var object = orb_->string_to_object(url_.c_str());
      timed(object);
      admin::EventChannel_var channel = admin::EventChannel::_narrow(object);
      if (CORBA::is_nil(channel)) {
        throw Error(url_ + " is no event channel; give the URL that the channel prints as READY");
      }
      timed(channel);
      return channel;
    } catch (const CORBA::Exception& exception) {
      throw Error("no event channel at " + url_ + ": " + text_of(exception));
    }
  }

  // Calls by this reference have the time-out.
  void timed(CORBA::Object_ptr object) {
    if (CORBA::is_nil(object)) return;
    omniORB::setClientCallTimeout(object, static_cast<CORBA::ULong>(options_.timeout.count()));
  }

  void add(const std::shared_ptr<Registration>& registration) {
    admin::EventChannel_var channel = resolve();
    try {
      registration->connect(channel);
    } catch (const CORBA::Exception& exception) {
      throw Error("the event channel at " + url_ + " does not connect it: " + text_of(exception));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    registrations_.push_back(registration);
  }

  // Something failed: all proxies are probed at once.
  void suspect() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      suspected_ = true;
    }
    wake_.notify_all();
  }

  void notice(const std::string& what) {
    if (options_.notice) options_.notice(what);
  }

 private:
  void run() {
    std::mt19937 random(std::random_device{}());
    int failures = 0;
    bool connected = true;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stopped_) {
      if (failures == 0) {
        wake_.wait_for(lock, options_.probe, [this] { return stopped_ || suspected_; });
      } else {
        // Half of the delay is random, so that not all clients of a channel come back at once.
        std::chrono::milliseconds delay = 10ms * (1 << std::min(failures - 1, 10));
        delay = std::min(delay, options_.longest_backoff);
        delay = delay / 2 + std::chrono::milliseconds(random() % (delay.count() / 2 + 1));
        wake_.wait_for(lock, delay, [this] { return stopped_; });
      }
      if (stopped_) return;
      suspected_ = false;
      std::vector<std::shared_ptr<Registration>> all;
      auto& known = registrations_;
      for (std::size_t at = known.size(); at-- > 0;) {
        if (auto one = known[at].lock()) all.push_back(one);
        else known.erase(known.begin() + static_cast<std::ptrdiff_t>(at));
      }
      lock.unlock();
      std::string why = check(all);
      all.clear();
      failures = why.empty() ? 0 : failures + 1;
      if (connected != why.empty()) {
        connected = why.empty();
        notice(connected ? "connected to the event channel again"
                         : "the event channel does not answer: " + why);
      }
      lock.lock();
    }
  }

  // Probes all proxies, and replaces those that are gone. Returns why that failed.
  std::string check(const std::vector<std::shared_ptr<Registration>>& all) {
    try {
      for (const auto& one : all) {
        if (!one->gone()) continue;
        admin::EventChannel_var channel = resolve();
        one->connect(channel);
        notice("connected anew: the event channel had forgotten it");
      }
      return {};
    } catch (const CORBA::Exception& exception) {
      return text_of(exception);
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  CORBA::ORB_var orb_;
  PortableServer::POA_var poa_;
  std::string url_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false, suspected_ = false;
  std::vector<std::weak_ptr<Registration>> registrations_;
  std::thread thread_;
};

template <class Proxy>
bool is_gone(const Proxy& proxy) {
  try {
    return CORBA::is_nil(proxy) || proxy->_non_existent();
  } catch (const CORBA::OBJECT_NOT_EXIST&) {
    return true;
  }
}

// Finds out by the numbers of a supplier which of its events did not arrive.
class Gaps {
 public:
  enum Arrival { in_order, repeated, late, after_gap };

  Arrival arrived(const Event& event, std::uint64_t& lost) {
    lost = 0;
    if (event.supplier == 0) return in_order;
    const Key key{event.supplier, event.type, event.source};
    auto found = streams_.find(key);
    if (found == streams_.end()) {
      // The stream that was silent for longest is forgotten.
      if (streams_.size() >= most) {
        auto oldest = streams_.begin();
        for (auto at = streams_.begin(); at != streams_.end(); ++at) {
          if (at->second.at < oldest->second.at) oldest = at;
        }
        streams_.erase(oldest);
      }
      streams_[key] = {event.number, 0, ++events_};
      return in_order;
    }
    Stream& stream = found->second;
    stream.at = ++events_;
    if (event.number <= stream.had) return repeated;
    if (event.number <= stream.last) return event.number == stream.last ? in_order : late;
    lost = event.number - stream.last - 1;
    stream.last = event.number;
    return lost ? after_gap : in_order;
  }

  // The consumer connects anew: events up to the last ones may come again, from the history.
  void interrupted() {
    for (auto& [key, stream] : streams_) stream.had = stream.last;
  }

 private:
  struct Stream {
    std::uint64_t last = 0, had = 0, at = 0;
  };
  static constexpr std::size_t most = 4096;
  using Key = std::tuple<std::uint64_t, std::int32_t, std::int32_t>;
  std::map<Key, Stream> streams_;
  std::uint64_t events_ = 0;
};

}  // namespace detail

// The counts of a consumer.
struct ConsumerCounts {
  std::uint64_t received = 0;
  // The gaps in the numbers of suppliers, without events that came late.
  std::uint64_t lost = 0;
  // Handlers that threw an exception.
  std::uint64_t failed = 0;
  // How often it was connected, the first time included.
  std::uint64_t connected = 0;
};

// A consumer that stays connected until this is destroyed.
class Consumer {
 public:
  using Handler = std::function<void(const Event&)>;

  Consumer(Consumer&&) = default;
  Consumer& operator=(Consumer&& other) {
    if (state_ && state_ != other.state_) state_->end();
    state_ = std::move(other.state_);
    link_ = std::move(other.link_);
    return *this;
  }
  ~Consumer() {
    if (state_) state_->end();
  }

  ConsumerCounts counts() const { return state_->counts(); }

 private:
  friend class Channel;

  class State final : public detail::Registration, public std::enable_shared_from_this<State> {
   public:
    State(std::weak_ptr<detail::Link> link, Filter filter, Handler handle, ConsumerOptions options)
        : link_(std::move(link)),
          filter_(std::move(filter)),
          handle_(std::move(handle)),
          options_(std::move(options)) {}

    bool gone() override {
      std::lock_guard<std::mutex> lock(mutex_);
      return detail::is_gone(proxy_);
    }

    void connect(detail::admin::EventChannel_ptr channel) override {
      auto link = link_.lock();
      if (!link) return;
      std::lock_guard<std::mutex> lock(mutex_);
      if (ended_) return;
      if (!servant_) {
        servant_ = new Servant(weak_from_this());
        id_ = link->poa()->activate_object(servant_);
      }
      detail::admin::ConsumerAdmin_var consumers = channel->for_consumers();
      detail::admin::ProxyPushSupplier_var proxy = consumers->obtain_push_supplier();
      link->timed(proxy);
      detail::admin::ConsumerQOS qos;
      qos.is_gateway = false;
      qos.dependencies.length(static_cast<CORBA::ULong>(filter_.terms_.size()));
      for (CORBA::ULong at = 0; at < qos.dependencies.length(); ++at) {
        auto& dependency = qos.dependencies[at];
        const auto& term = filter_.terms_[at];
        dependency.rt_info = 0;
        dependency.event.header = {term.type, term.source, 0, term.time, 0, 0};
        dependency.event.data.pad1 = 0;
      }
      CORBA::Object_var object = link->poa()->id_to_reference(id_);
      detail::comm::PushConsumer_var me = detail::comm::PushConsumer::_narrow(object);
      {
        std::lock_guard<std::mutex> gaps(gaps_mutex_);
        gaps_.interrupted();
      }
      connect(*link, proxy, me, qos);
      proxy_ = proxy;
      ++connected_;
    }

    void receive(const detail::comm::EventSet& events, const detail::numbered::Origins* origins) {
      for (CORBA::ULong at = 0; at < events.length(); ++at) {
        const auto& from = events[at];
        Event event{from.header.type, from.header.source, from.header.creation_time,
                    from.data.payload.get_buffer(), from.data.payload.length(), 0, 0};
        if (origins && at < origins->length()) {
          event.supplier = (*origins)[at].supplier;
          event.number = (*origins)[at].number;
        }
        if (!filter_.conjunction_ && !count(event)) continue;
        ++received_;
        try {
          handle_(event);
        } catch (const std::exception& error) {
          if (failed_++ == 0) tell(std::string("a handler failed: ") + error.what());
        } catch (...) {
          if (failed_++ == 0) tell("a handler failed");
        }
      }
    }

    void suspect() {
      if (auto link = link_.lock()) link->suspect();
    }

    void forget() {
      std::lock_guard<std::mutex> lock(mutex_);
      proxy_ = detail::admin::ProxyPushSupplier::_nil();
    }

    void end() {
      detail::admin::ProxyPushSupplier_var proxy;
      PortableServer::ServantBase_var servant;
      PortableServer::ObjectId_var id;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        ended_ = true;
        proxy = proxy_._retn();
        servant = servant_;
        servant_ = nullptr;
        id = id_._retn();
      }
      try {
        if (auto link = link_.lock(); link && servant.in()) link->poa()->deactivate_object(id);
        // A channel that does not answer removes it by its ping.
        if (!CORBA::is_nil(proxy)) proxy->disconnect_push_supplier();
      } catch (const CORBA::Exception&) {
      }
    }

    ConsumerCounts counts() const { return {received_, lost_, failed_, connected_}; }

   private:
    class Servant final : public POA_IsorbRtecEventChannelAdmin::PushConsumer {
     public:
      explicit Servant(std::weak_ptr<State> state) : state_(std::move(state)) {}
      void push(const detail::comm::EventSet& data) override {
        if (auto state = state_.lock()) state->receive(data, nullptr);
      }
      void push_numbered(const detail::comm::EventSet& data,
                         const detail::numbered::Origins& from) override {
        if (auto state = state_.lock()) state->receive(data, &from);
      }
      // The program has not asked for that, so it is connected anew.
      void disconnect_push_consumer() override {
        if (auto state = state_.lock()) {
          state->forget();
          state->suspect();
        }
      }

     private:
      std::weak_ptr<State> state_;
    };

    // Connects at a proxy, with the options if there are any.
    void connect(detail::Link& link, detail::admin::ProxyPushSupplier_ptr proxy,
                 detail::comm::PushConsumer_ptr me, const detail::admin::ConsumerQOS& qos) {
      const ConsumerOptions& with = options_;
      if (with.history_last == 0 && with.min_separation.count() == 0 && with.where.empty() &&
          with.instance_period.count() == 0) {
        return proxy->connect_push_consumer(me, qos);
      }
      using Able = detail::numbered::ProxyPushSupplier;
      detail::numbered::ProxyPushSupplier_var able = Able::_narrow(proxy);
      if (CORBA::is_nil(able)) {
        throw Error("the event channel is not isorb's: it has neither history nor conditions");
      }
      link.timed(able);
      try {
        if (!with.where.empty()) able->set_content(with.where.c_str(), with.payload);
        if (with.instance_period.count() != 0) {
          able->set_instance_period(Filter::units(with.instance_period));
        }
        detail::numbered::ConsumerOptions asked;
        asked.history_last = with.history_last;
        asked.history_age = Filter::units(with.history_age);
        asked.min_separation = Filter::units(with.min_separation);
        able->connect_push_consumer_with(me, qos, asked);
      } catch (const detail::numbered::ContentError& error) {
        throw Error("the condition is refused: " + std::string(error.why));
      } catch (const CORBA::NO_RESOURCES& error) {
        if (with.history_last == 0) throw;
        throw Error("the event channel refuses it, perhaps since it keeps no history (--keep-last): " +
                    detail::text_of(error));
      }
    }

    // False for an event of the history that it has had.
    bool count(const Event& event) {
      std::uint64_t lost = 0;
      detail::Gaps::Arrival arrival;
      {
        std::lock_guard<std::mutex> lock(gaps_mutex_);
        arrival = gaps_.arrived(event, lost);
      }
      if (arrival == detail::Gaps::repeated) return options_.history_last == 0;
      if (!options_.where.empty() || options_.min_separation.count() != 0) return true;
      if (arrival == detail::Gaps::after_gap) {
        lost_ += lost;
        tell(std::to_string(lost) + " events of type " + std::to_string(event.type) +
             " and source " + std::to_string(event.source) + " were lost on their way");
      } else if (arrival == detail::Gaps::late && lost_ > 0) {
        --lost_;
      }
      return true;
    }

    void tell(const std::string& what) {
      if (auto link = link_.lock()) link->notice(what);
    }

    std::weak_ptr<detail::Link> link_;
    const Filter filter_;
    const Handler handle_;
    const ConsumerOptions options_;
    std::mutex mutex_, gaps_mutex_;
    Servant* servant_ = nullptr;
    PortableServer::ObjectId_var id_;
    detail::admin::ProxyPushSupplier_var proxy_;
    bool ended_ = false;
    detail::Gaps gaps_;
    std::atomic<std::uint64_t> received_{0}, lost_{0}, failed_{0}, connected_{0};
  };

  Consumer(std::shared_ptr<detail::Link> link, std::shared_ptr<State> state)
      : link_(std::move(link)), state_(std::move(state)) {}

  // The link lives as long as its last consumer.
  std::shared_ptr<detail::Link> link_;
  std::shared_ptr<State> state_;
};

// A supplier that stays connected until this is destroyed. It numbers its events of each type and
// source, so that consumers notice those that are lost.
class Supplier {
 public:
  Supplier(Supplier&&) = default;
  Supplier& operator=(Supplier&& other) {
    if (state_ && state_ != other.state_) state_->end();
    state_ = std::move(other.state_);
    link_ = std::move(other.link_);
    return *this;
  }
  ~Supplier() {
    if (state_) state_->end();
  }

  // Pushes an event. False: it is lost and counted, since the channel does not answer or the event
  // has 4 GiB; it has used up its number, so that consumers count it, too. Threads that share a
  // supplier wait for each other.
  bool push(std::int32_t type, std::int32_t source, const void* data, std::size_t size) {
    return state_->push(type, source, data, size);
  }
  bool push(std::int32_t type, std::int32_t source, std::string_view text) {
    return push(type, source, text.data(), text.size());
  }

  // Events that the connection took, and events that it did not take.
  std::uint64_t pushed() const { return state_->pushed_; }
  std::uint64_t lost() const { return state_->lost_; }
  // Events that the channel dropped because a stronger supplier is heard. They are neither pushed
  // nor lost.
  std::uint64_t not_owned() const { return state_->not_owned_; }

 private:
  friend class Channel;

  class State final : public detail::Registration {
   public:
    State(std::weak_ptr<detail::Link> link, SupplierOptions options)
        : link_(std::move(link)), options_(options) {
      std::random_device random;
      number_ = (static_cast<std::uint64_t>(random()) << 32 | random()) | 1;
    }

    bool gone() override {
      std::lock_guard<std::mutex> lock(mutex_);
      return detail::is_gone(proxy_);
    }

    void connect(detail::admin::EventChannel_ptr channel) override {
      auto link = link_.lock();
      if (!link) return;
      detail::admin::SupplierAdmin_var suppliers = channel->for_suppliers();
      detail::admin::ProxyPushConsumer_var proxy = suppliers->obtain_push_consumer();
      link->timed(proxy);
      // A channel of another ORB takes no numbers.
      using Able = detail::numbered::ProxyPushConsumer;
      detail::numbered::ProxyPushConsumer_var able = Able::_narrow(proxy);
      link->timed(able);
      if (options_.strength) compete(able);
      detail::admin::SupplierQOS qos;
      qos.is_gateway = false;
      proxy->connect_push_supplier(detail::comm::PushSupplier::_nil(), qos);
      std::lock_guard<std::mutex> lock(mutex_);
      proxy_ = proxy;
      able_ = able;
    }

    bool push(std::int32_t type, std::int32_t source, const void* data, std::size_t size) {
      std::lock_guard<std::mutex> lock(mutex_);
      detail::numbered::Origins from(1);
      from.length(1);
      from[0].supplier = number_;
      from[0].number = ++numbers_[{type, source}];
      detail::comm::EventSet events(1);
      events.length(1);
      auto ticks = std::chrono::steady_clock::now().time_since_epoch();
      auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(ticks).count() / 100;
      events[0].header = {type, source, 1, static_cast<CORBA::ULongLong>(now), 0, 0};
      events[0].data.pad1 = 0;
      auto* octets = static_cast<CORBA::Octet*>(const_cast<void*>(data));
      const auto length = static_cast<CORBA::ULong>(size);
      // The sequence lends the caller's octets.
      events[0].data.payload.replace(length, length, octets, false);
      try {
        // The length of a sequence has 32 bits.
        if (size != length) throw CORBA::IMP_LIMIT();
        if (CORBA::is_nil(proxy_)) throw CORBA::TRANSIENT();
        if (CORBA::is_nil(able_)) {
          proxy_->push(events);
        } else if (!options_.strength) {
          able_->push_numbered(events, from);
        } else if (able_->push_owned(events, from) != 0) {
          // The next event has this number, so that consumers see no gap.
          --numbers_[{type, source}];
          ++not_owned_;
          return true;
        }
        ++pushed_;
        return true;
      } catch (const CORBA::Exception&) {
        ++lost_;
        if (auto link = link_.lock()) link->suspect();
        return false;
      }
    }

    void end() {
      std::lock_guard<std::mutex> lock(mutex_);
      try {
        if (!CORBA::is_nil(proxy_)) proxy_->disconnect_push_consumer();
      } catch (const CORBA::Exception&) {
      }
      proxy_ = detail::admin::ProxyPushConsumer::_nil();
    }

    std::atomic<std::uint64_t> pushed_{0}, lost_{0}, not_owned_{0};

   private:
    void compete(detail::numbered::ProxyPushConsumer_ptr able) {
      const char* unknown = "the event channel knows no ownership: it is not isorb's, or older";
      if (CORBA::is_nil(able)) throw Error(unknown);
      try {
        able->set_ownership(*options_.strength, Filter::units(options_.lease));
      } catch (const CORBA::BAD_OPERATION&) {
        throw Error(unknown);
      }
    }

    std::weak_ptr<detail::Link> link_;
    const SupplierOptions options_;
    std::uint64_t number_;
    std::mutex mutex_;
    std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> numbers_;
    detail::admin::ProxyPushConsumer_var proxy_;
    detail::numbered::ProxyPushConsumer_var able_;
  };

  Supplier(std::shared_ptr<detail::Link> link, std::shared_ptr<State> state)
      : link_(std::move(link)), state_(std::move(state)) {}

  std::shared_ptr<detail::Link> link_;
  std::shared_ptr<State> state_;
};

// A channel in another process. Copies are handles of one connection, which ends with its last
// handle, consumer and supplier.
class Channel {
 public:
  // Connects to the channel at a URL (corbaloc:, corbaname:, IOR:). After a restart the URL is
  // resolved again. Throws Error; a program that is to wait for its channel tries again.
  Channel(CORBA::ORB_ptr orb, const std::string& url, Options options = Options())
      : link_(std::make_shared<detail::Link>(orb, url, std::move(options))) {}

  // Connects a consumer of events that pass the filter, until the result is destroyed.
  // Throws Error where the channel does not grant the options, with the reason.
  Consumer consume(Filter filter, Consumer::Handler handle, ConsumerOptions options = {}) {
    auto state = std::make_shared<Consumer::State>(link_, std::move(filter), std::move(handle),
                                                   std::move(options));
    link_->add(state);
    return Consumer(link_, state);
  }

  // Connects a supplier, until the result is destroyed. Throws Error where the channel does not
  // grant the options, with the reason.
  Supplier supplier(SupplierOptions options = {}) {
    auto state = std::make_shared<Supplier::State>(link_, options);
    link_->add(state);
    return Supplier(link_, state);
  }

 private:
  std::shared_ptr<detail::Link> link_;
};

}  // namespace isorb::events

#endif
