// RIO as an object of omniORB: the service of an application in its own process, as in CReMeS. The
// skeleton is omniidl's, from idl/ReflectiveMemory.idl; the memory is libisorb_crm's.
#ifndef ISORB_EXAMPLE_RIO_HPP
#define ISORB_EXAMPLE_RIO_HPP

#include "ReflectiveMemory.hh"
#include "isorb_crm.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace RM = ReflectiveMemory;

/// A writer or a reader of one client of the object. One call uses it at a time.
struct Attachment {
  std::mutex use;
  std::string area;
  isorb_crm_writer writer{0};
  isorb_crm_reader reader{0};
  std::vector<CORBA::Octet> value;
  ~Attachment() {
    if (writer.handle != 0) isorb_crm_close_writer(writer);
    if (reader.handle != 0) isorb_crm_close_reader(reader);
  }
};

class Rio : public virtual POA_ReflectiveMemory::RIO {
 public:
  explicit Rio(isorb_crm_session session) : session_(session) {}

  void create_area(const RM::Area& what) override {
    isorb_crm_area area{what.name, what.size, what.histories, {ISORB_CRM_OCTETS, nullptr, nullptr}};
    if (*what.data.id != '\0') {
      area.values = {ISORB_CRM_TYPED, what.data.id, what.data.definition};
    }
    const isorb_crm_result code = isorb_crm_create_area(session_, &area, 0);
    if (code == ISORB_CRM_AREA_EXISTS) throw RM::AreaExists(what);
    if (code != ISORB_CRM_OK) raise(code, what.name);
    const std::lock_guard<std::mutex> lock(table_);
    if (*what.data.id != '\0') types_[what.data.hash] = {std::string(what.data.id), std::string(what.data.definition)};
  }

  void destroy_area(const char* name) override { check(isorb_crm_destroy_area(session_, name), name); }

  RM::Handle map_writer(const char* name, const RM::WriterQoS& qos) override {
    const Type type = expected(qos.type_hash, name);
    const isorb_crm_writer_qos wish{qos.period, qos.size, 0};
    auto made = std::make_shared<Attachment>();
    made->area = name;
    const isorb_crm_type values = type.get();
    check(isorb_crm_map_writer(session_, name, &values, &wish, 0, &made->writer), name);
    return enter(std::move(made));
  }

  RM::Handle attach_reader(const char* name, const RM::ReaderQoS& qos) override {
    const Type type = expected(qos.type_hash, name);
    isorb_crm_reader_qos wish{};
    wish.mode = qos.how == RM::periodic_push ? ISORB_CRM_PERIODIC_PUSH : ISORB_CRM_PUSH_ON_WRITE;
    wish.path = path(qos.through);
    wish.period_ns = qos.period;
    wish.deadline_ns = qos.deadline;
    wish.histories = qos.histories;
    wish.guaranteed = qos.guaranteed ? (qos.soft ? 2 : 1) : 0;
    wish.parity = qos.parity;
    auto made = std::make_shared<Attachment>();
    made->area = name;
    const isorb_crm_type values = type.get();
    check(isorb_crm_attach_reader(session_, name, &values, &wish, 0, &made->reader), name);
    std::size_t size = 0;
    check(isorb_crm_reader_size(made->reader, &size), name);
    made->value.resize(size);
    return enter(std::move(made));
  }

  void detach(RM::Handle which) override {
    const std::lock_guard<std::mutex> lock(table_);
    if (attachments_.erase(which) == 0) throw RM::UnknownHandle(which);
  }

  CORBA::ULongLong write(RM::Handle which, const RM::Octets& data) override {
    const auto found = find(which);
    if (found->writer.handle == 0) throw RM::UnknownHandle(which);
    const std::lock_guard<std::mutex> lock(found->use);
    std::uint64_t number = 0;
    const isorb_crm_result code = isorb_crm_write(found->writer, data.get_buffer(), data.length(), &number);
    if (code == ISORB_CRM_WRONG_SIZE) {
      std::size_t limit = 0;
      isorb_crm_writer_size(found->writer, &limit);
      throw RM::WrongSize("the value", data.length(), limit);
    }
    check(code, found->area.c_str());
    return number;
  }

  RM::Octets* read_latest(RM::Handle which, RM::Nanoseconds max_age, RM::Nanoseconds timeout, RM::Sample& about) override {
    return read(which, about, [&](Attachment& from, isorb_crm_sample& sample) {
      const auto is_good = [&] {
        const std::uint64_t bound = sample.age_bound_ns == UINT64_MAX ? 0 : sample.age_bound_ns;
        return max_age == 0 || sample.age_ns + bound <= max_age;
      };
      const auto latest = [&] { return isorb_crm_latest(from.reader, from.value.data(), from.value.size(), &sample); };
      isorb_crm_result code = latest();
      if (code == ISORB_CRM_OK && is_good()) return code;
      if (code != ISORB_CRM_OK && (code != ISORB_CRM_NO_VALUE || timeout == 0)) return code;
      code = wait(from, timeout);
      if (code == ISORB_CRM_OK) code = latest();
      return code == ISORB_CRM_OK && !is_good() ? ISORB_CRM_TIMED_OUT : code;
    });
  }

  RM::Octets* read_next(RM::Handle which, RM::Nanoseconds timeout, RM::Sample& about) override {
    return read(which, about, [&](Attachment& from, isorb_crm_sample& sample) {
      const auto next = [&] { return isorb_crm_next(from.reader, from.value.data(), from.value.size(), &sample); };
      isorb_crm_result code = next();
      if (code != ISORB_CRM_NO_VALUE) return code;
      code = wait(from, timeout);
      if (code == ISORB_CRM_OK) code = next();
      return code == ISORB_CRM_NO_VALUE ? ISORB_CRM_TIMED_OUT : code;
    });
  }

  RM::Octets* read_history(RM::Handle which, CORBA::ULong back, RM::Sample& about) override {
    return read(which, about, [&](Attachment& from, isorb_crm_sample& sample) {
      return isorb_crm_history(from.reader, back, from.value.data(), from.value.size(), &sample);
    });
  }

  void start(RM::Handle which) override { set_running(which, true); }
  void stop(RM::Handle which) override { set_running(which, false); }

  RM::Statistics get_statistics(RM::Handle which) override {
    const auto found = find(which);
    const std::lock_guard<std::mutex> lock(found->use);
    isorb_crm_statistics counts{};
    check(found->reader.handle != 0 ? isorb_crm_reader_statistics(found->reader, &counts)
                                    : isorb_crm_writer_statistics(found->writer, &counts),
          found->area.c_str());
    RM::Statistics result;
    result.now = state(counts.state);
    result.values = counts.values;
    result.lost = counts.lost;
    result.skipped = counts.skipped;
    result.recovered = counts.recovered;
    result.ignored = counts.ignored;
    result.stale = counts.stale;
    result.silent = counts.silent;
    result.worst_age = counts.worst_age_ns;
    result.age_bound = counts.age_bound_ns;
    return result;
  }

  /// libisorb_crm has no events; isorb's own RIO has.
  RM::Handle notify(RM::Handle, RtecEventChannelAdmin::EventChannel_ptr, const RM::EventQoS&) override {
    throw CORBA::NO_IMPLEMENT();
  }

 private:
  /// The values that a writer or reader expects.
  struct Type {
    std::uint32_t kind;
    std::string id, definition;
    isorb_crm_type get() const {
      if (kind != ISORB_CRM_TYPED) return {kind, nullptr, nullptr};
      return {kind, id.c_str(), definition.c_str()};
    }
  };

  /// Slices of a wait, so that a detached reader does not keep its thread for long.
  static constexpr std::uint64_t slice_ns = 100'000'000;

  Type expected(CORBA::ULongLong hash, const char* name) {
    if (hash == 0) return {ISORB_CRM_OCTETS, {}, {}};
    if (hash == RM::raw_octets) return {ISORB_CRM_ANY_TYPE, {}, {}};
    const std::lock_guard<std::mutex> lock(table_);
    const auto known = types_.find(hash);
    if (known == types_.end()) {
      const std::string reason = std::string(name) + ": this object knows the types of areas that were made by it; "
                                 "attach with raw_octets, or make the area here";
      throw RM::Unavailable(reason.c_str(), false);
    }
    return {ISORB_CRM_TYPED, known->second.first, known->second.second};
  }

  RM::Handle enter(std::shared_ptr<Attachment> made) {
    const std::lock_guard<std::mutex> lock(table_);
    // Unique in the library, and never used again.
    const RM::Handle which = ++last_;
    attachments_.emplace(which, std::move(made));
    return which;
  }

  std::shared_ptr<Attachment> find(RM::Handle which) {
    const std::lock_guard<std::mutex> lock(table_);
    const auto found = attachments_.find(which);
    if (found == attachments_.end()) throw RM::UnknownHandle(which);
    return found->second;
  }

  bool is_attached(const Attachment& attachment) {
    const std::lock_guard<std::mutex> lock(table_);
    return std::any_of(attachments_.begin(), attachments_.end(),
                       [&](const auto& entry) { return entry.second.get() == &attachment; });
  }

  template <class F>
  RM::Octets* read(RM::Handle which, RM::Sample& about, F get) {
    const auto found = find(which);
    if (found->reader.handle == 0) throw RM::UnknownHandle(which);
    const std::lock_guard<std::mutex> lock(found->use);
    isorb_crm_sample sample{};
    const isorb_crm_result code = get(*found, sample);
    std::uint32_t now = ISORB_CRM_STATE_WRITER_GONE;
    if (code != ISORB_CRM_OK) isorb_crm_reader_state(found->reader, &now);
    switch (code) {
      case ISORB_CRM_OK: break;
      case ISORB_CRM_NO_VALUE: throw RM::NoValueYet();
      case ISORB_CRM_TIMED_OUT: throw RM::TimedOut(state(now));
      case ISORB_CRM_OVERWRITTEN: throw RM::Overwritten();
      default: throw RM::Lost(state(now), isorb_crm_error_text());
    }
    about.number = sample.number;
    about.source = sample.source;
    about.writer = sample.writer;
    about.age = sample.age_ns;
    about.age_bound = sample.age_bound_ns;
    about.missed = sample.missed;
    RM::Octets_var octets = new RM::Octets;
    octets->length(static_cast<CORBA::ULong>(sample.len));
    std::copy_n(found->value.begin(), sample.len, octets->get_buffer());
    return octets._retn();
  }

  /// A change of the state that is not final does not end the wait.
  isorb_crm_result wait(Attachment& from, std::uint64_t timeout_ns) {
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    for (;;) {
      const auto passed = static_cast<std::uint64_t>(std::chrono::nanoseconds(clock::now() - start).count());
      const std::uint64_t left = passed < timeout_ns ? timeout_ns - passed : 0;
      std::uint32_t now = ISORB_CRM_STATE_OPEN;
      const isorb_crm_result code = isorb_crm_wait(from.reader, std::min(left, slice_ns), &now);
      const bool goes_on = code == ISORB_CRM_TIMED_OUT || (code == ISORB_CRM_CHANGED && now != ISORB_CRM_STATE_DESTROYED);
      if (!goes_on) return code;
      if (left == 0) return ISORB_CRM_TIMED_OUT;
      if (!is_attached(from)) return ISORB_CRM_CLOSED;
    }
  }

  void set_running(RM::Handle which, bool running) {
    const auto found = find(which);
    if (found->reader.handle == 0) throw RM::Unavailable("only a reader has a channel of its own", false);
    const std::lock_guard<std::mutex> lock(found->use);
    check(isorb_crm_set_running(found->reader, running), found->area.c_str());
  }

  static std::uint32_t path(RM::Path through) {
    switch (through) {
      case RM::path_orb: return ISORB_CRM_PATH_ORB;
      case RM::path_oneway: return ISORB_CRM_PATH_ONEWAY;
      case RM::path_multicast: return ISORB_CRM_PATH_MULTICAST;
      default: return ISORB_CRM_PATH_UDP;
    }
  }

  static RM::State state(std::uint32_t now) {
    return now <= ISORB_CRM_STATE_MOVED ? static_cast<RM::State>(now) : RM::state_writer_gone;
  }

  static void check(isorb_crm_result code, const char* name) {
    if (code != ISORB_CRM_OK) raise(code, name);
  }

  /// The exception of a failure. The C interface has sentences where the IDL has numbers.
  [[noreturn]] static void raise(isorb_crm_result code, const char* name) {
    const char* const text = isorb_crm_error_text();
    switch (code) {
      case ISORB_CRM_UNKNOWN_AREA: throw RM::UnknownArea(name, "");
      case ISORB_CRM_WRITER_EXISTS: throw RM::WriterExists(name);
      case ISORB_CRM_WRONG_TYPE: throw RM::WrongType(name, RM::DataType(), text);
      case ISORB_CRM_WRONG_SIZE: throw RM::WrongSize(text, 0, 0);
      case ISORB_CRM_NOT_ADMITTED: throw RM::NotAdmitted("", text, 0, 0);
      default: throw RM::Unavailable(text, code == ISORB_CRM_UNAVAILABLE);
    }
  }

  const isorb_crm_session session_;
  std::mutex table_;
  std::map<RM::Handle, std::shared_ptr<Attachment>> attachments_;
  std::map<CORBA::ULongLong, std::pair<std::string, std::string>> types_;
  RM::Handle last_ = 0;
};

#endif
