// Reflective memory for C++17, on isorb_crm.h: docs/guides/reflective-memory-from-c.md.
//
// Objects close what they opened. Failures are exceptions (isorb::crm::Error), but for those that
// are part of the work: no value yet, time-outs, a value that was overwritten.
#ifndef ISORB_CRM_HPP
#define ISORB_CRM_HPP

#include "isorb_crm.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace isorb::crm {

using std::chrono::nanoseconds;

/// A failure: its code, and the sentence that says what happened and what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(isorb_crm_result code) : std::runtime_error(isorb_crm_error_text()), code_(code) {}
  isorb_crm_result code() const noexcept { return code_; }
  const char* name() const noexcept { return isorb_crm_result_name(code_); }

 private:
  isorb_crm_result code_;
};

/// The area holds octets that are not a value of the reader's type.
class BadValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void check(isorb_crm_result code) {
  if (code != ISORB_CRM_OK) throw Error(code);
}

/// Of a wait: a new value, none in time, or another state of the area.
enum class Event { value, timeout, state };

inline std::uint64_t count(nanoseconds time) { return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count()); }

/// Specialised by ISORB_CRM_AREA_TYPE.
template <class T>
struct area_type;

namespace detail {

/// A member of a structure: its type, name and offset.
template <class T>
struct Member {
  using type = T;
  const char* name;
  std::size_t offset;
};

/// Alignment in CDR that C++ does not share, such as that of a double on some 32-bit machines.
constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

constexpr std::size_t align(std::size_t at, std::size_t size) { return (at + size - 1) / size * size; }

template <class T>
constexpr const char* keyword() {
  using U = std::remove_cv_t<T>;
  [[maybe_unused]] constexpr bool is_signed = std::is_signed_v<U>;
  if constexpr (std::is_same_v<U, bool>) return "boolean";
  else if constexpr (std::is_same_v<U, char>) return "char";
  else if constexpr (std::is_same_v<U, unsigned char>) return "octet";
  else if constexpr (std::is_floating_point_v<U> && sizeof(U) == 4) return "float";
  else if constexpr (std::is_floating_point_v<U> && sizeof(U) == 8) return "double";
  else if constexpr (std::is_same_v<U, wchar_t> || std::is_same_v<U, char16_t> || std::is_same_v<U, char32_t>) return nullptr;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 2) return is_signed ? "short" : "unsigned short";
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 4) return is_signed ? "long" : "unsigned long";
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 8) return is_signed ? "long long" : "unsigned long long";
  else return nullptr;
}

template <class T>
struct array_of {
  static constexpr bool is = false;
};
template <class E, std::size_t N>
struct array_of<E[N]> {
  static constexpr bool is = true;
  static constexpr std::size_t size = N;
  using type = E;
};
template <class E, std::size_t N>
struct array_of<std::array<E, N>> : array_of<E[N]> {};

/// Where in CDR a value of T ends that begins at `at`; `nowhere` if it lies elsewhere in C++, where
/// it begins at `here`.
template <class T>
constexpr std::size_t end_in_cdr(std::size_t at, std::size_t here) {
  using U = std::remove_cv_t<T>;
  if constexpr (array_of<U>::is) {
    using E = typename array_of<U>::type;
    for (std::size_t i = 0; i < array_of<U>::size; ++i) {
      at = end_in_cdr<E>(at, here + i * sizeof(E));
      if (at == nowhere) return nowhere;
    }
    return at;
  } else if constexpr (std::is_arithmetic_v<U>) {
    static_assert(keyword<U>() != nullptr, "this type has no counterpart of the same size in IDL");
    at = align(at, sizeof(U));
    return at == here ? at + sizeof(U) : nowhere;
  } else {
    return std::apply(
        [&](auto... member) {
          ((at = at == nowhere ? nowhere : end_in_cdr<typename decltype(member)::type>(at, here + member.offset)), ...);
          return at;
        },
        area_type<U>::members());
  }
}

/// The definition in IDL, as isorb compares it.
template <class T>
std::string definition() {
  using U = std::remove_cv_t<T>;
  if constexpr (array_of<U>::is) {
    return definition<typename array_of<U>::type>() + "[" + std::to_string(array_of<U>::size) + "]";
  } else if constexpr (std::is_arithmetic_v<U>) {
    return keyword<U>();
  } else {
    std::string_view name = area_type<U>::name;
    name = name.substr(name.rfind(':') + 1);
    std::string text = "struct " + std::string(name) + " {";
    std::apply(
        [&](auto... member) {
          ((text += " " + definition<typename decltype(member)::type>() + " " + member.name + ";"), ...);
        },
        area_type<U>::members());
    return text + " }";
  }
}

/// Whether octets are a value of T: a bool that is neither 0 nor 1 has no meaning in C++.
template <class T>
bool is_valid(const unsigned char* at) {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) {
    return *at <= 1;
  } else if constexpr (array_of<U>::is) {
    using E = typename array_of<U>::type;
    if constexpr (std::is_arithmetic_v<E> && !std::is_same_v<std::remove_cv_t<E>, bool>) return true;
    for (std::size_t i = 0; i < array_of<U>::size; ++i) {
      if (!is_valid<E>(at + i * sizeof(E))) return false;
    }
    return true;
  } else if constexpr (std::is_arithmetic_v<U>) {
    return true;
  } else {
    return std::apply(
        [&](auto... member) { return (is_valid<typename decltype(member)::type>(at + member.offset) && ...); },
        area_type<U>::members());
  }
}

/// The octets of a value. A structure's padding behind its last member is not part of it.
template <class T>
constexpr std::size_t size_in_cdr() {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>,
                "a type of areas is copied as memory: trivially copyable, of standard layout");
  constexpr std::size_t end = end_in_cdr<T>(0, 0);
  static_assert(end != nowhere,
                "members lie elsewhere in CDR: order them by size, or put members in place of the padding");
  return end;
}

/// A handle that is closed at the end of its owner.
template <class H, isorb_crm_result (*Close)(H)>
class Owner {
 public:
  explicit Owner(H handle) noexcept : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, H{0})) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_.handle != 0) Close(handle_);
  }
  H get() const noexcept { return handle_; }

 private:
  H handle_;
};

inline isorb_crm_type octets() { return {ISORB_CRM_OCTETS, nullptr, nullptr}; }

/// Gives `use` the type of T. Its texts live as long as the call.
template <class T, class F>
auto with_type(F use) {
  const std::string text = definition<T>();
  return use(isorb_crm_type{ISORB_CRM_TYPED, area_type<T>::id, text.c_str()});
}

}  // namespace detail

/// A session with the server of this node. Several threads may use it at the same time.
class Session {
 public:
  /// `socket`: null for the default one. `timeout`: how long to wait for a server.
  explicit Session(const char* socket = nullptr, nanoseconds timeout = {}) : owner_(open(socket, timeout)) {}

  /// Makes an area for values of T, or opens it. True if it was made.
  template <class T>
  bool open_or_create(const std::string& name, std::uint32_t histories, nanoseconds timeout = {}) const {
    return detail::with_type<T>([&](isorb_crm_type type) {
      return open_or_create({name.c_str(), detail::size_in_cdr<T>(), histories, type}, timeout);
    });
  }

  /// Makes an area of octets, or opens it. True if it was made.
  bool open_or_create_octets(const std::string& name, std::uint32_t size, std::uint32_t histories,
                             nanoseconds timeout = {}) const {
    return open_or_create({name.c_str(), size, histories, detail::octets()}, timeout);
  }

  bool open_or_create(const isorb_crm_area& area, nanoseconds timeout) const {
    bool created = false;
    check(isorb_crm_open_or_create_area(get(), &area, count(timeout), &created));
    return created;
  }

  void destroy(const std::string& name) const { check(isorb_crm_destroy_area(get(), name.c_str())); }

  isorb_crm_session get() const noexcept { return owner_.get(); }

 private:
  static isorb_crm_session open(const char* socket, nanoseconds timeout) {
    isorb_crm_session session{0};
    check(isorb_crm_open(ISORB_CRM_VERSION, socket, count(timeout), &session));
    return session;
  }

  detail::Owner<isorb_crm_session, isorb_crm_close> owner_;
};

/// The writer of an area of octets. One thread uses it at a time.
class OctetWriter {
 public:
  OctetWriter(const isorb_crm_type& type, const Session& session, const std::string& name,
              const isorb_crm_writer_qos& qos = {}, nanoseconds timeout = {})
      : owner_(map(session, name, type, qos, timeout)) {}
  OctetWriter(const Session& session, const std::string& name, const isorb_crm_writer_qos& qos = {},
              nanoseconds timeout = {})
      : OctetWriter(detail::octets(), session, name, qos, timeout) {}

  /// Returns the number of the value. Neither allocates nor waits.
  std::uint64_t write(const void* data, std::size_t len) {
    std::uint64_t number = 0;
    check(isorb_crm_write(get(), data, len, &number));
    return number;
  }

  std::size_t size() const {
    std::size_t size = 0;
    check(isorb_crm_writer_size(get(), &size));
    return size;
  }

  bool is_served() const {
    bool served = false;
    check(isorb_crm_writer_is_served(get(), &served));
    return served;
  }

  isorb_crm_statistics statistics() const {
    isorb_crm_statistics statistics{};
    check(isorb_crm_writer_statistics(get(), &statistics));
    return statistics;
  }

  isorb_crm_writer get() const noexcept { return owner_.get(); }

 private:
  static isorb_crm_writer map(const Session& session, const std::string& name, const isorb_crm_type& type,
                              const isorb_crm_writer_qos& qos, nanoseconds timeout) {
    isorb_crm_writer writer{0};
    check(isorb_crm_map_writer(session.get(), name.c_str(), &type, &qos, count(timeout), &writer));
    return writer;
  }

  detail::Owner<isorb_crm_writer, isorb_crm_close_writer> owner_;
};

/// A value that is read in place. Read it, then ask `end` whether it still was whole.
class Lease {
 public:
  explicit Lease(isorb_crm_reader reader) : reader_(reader) { check(isorb_crm_begin_lease(reader, &lease_, &about_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (lease_.data != nullptr) isorb_crm_end_lease(reader_, lease_.lease);
  }

  /// Valid until the end of the lease. The writer may change the octets at any time.
  const unsigned char* data() const noexcept { return lease_.data; }
  std::size_t size() const noexcept { return lease_.len; }
  const isorb_crm_sample& about() const noexcept { return about_; }

  /// True if all that was read belongs to the value; false if the writer overwrote it meanwhile.
  bool end() {
    lease_.data = nullptr;
    const isorb_crm_result code = isorb_crm_end_lease(reader_, lease_.lease);
    if (code != ISORB_CRM_OVERWRITTEN) check(code);
    return code == ISORB_CRM_OK;
  }

 private:
  isorb_crm_reader reader_;
  isorb_crm_lease lease_{};
  isorb_crm_sample about_{};
};

/// A reader of an area of octets. One thread uses it at a time.
class OctetReader {
 public:
  OctetReader(const isorb_crm_type& type, const Session& session, const std::string& name,
              const isorb_crm_reader_qos& qos = {}, nanoseconds timeout = {})
      : owner_(attach(session, name, type, qos, timeout)) {}
  OctetReader(const Session& session, const std::string& name, const isorb_crm_reader_qos& qos = {},
              nanoseconds timeout = {})
      : OctetReader(detail::octets(), session, name, qos, timeout) {}

  /// Waits for a value that this reader has not read. `state` gets the state of the area where that
  /// changed: one of ISORB_CRM_STATE_….
  Event wait(nanoseconds timeout, std::uint32_t* state = nullptr) {
    const isorb_crm_result code = isorb_crm_wait(get(), count(timeout), state);
    if (code == ISORB_CRM_TIMED_OUT) return Event::timeout;
    if (code == ISORB_CRM_CHANGED) return Event::state;
    check(code);
    return Event::value;
  }

  /// Copies the latest value, new or not; none if nothing was written yet.
  std::optional<isorb_crm_sample> latest(void* data, std::size_t capacity) {
    isorb_crm_sample about{};
    return unless_empty(isorb_crm_latest(get(), data, capacity, &about), about);
  }

  /// Copies the oldest value that is kept and was not read, if there is one.
  std::optional<isorb_crm_sample> next(void* data, std::size_t capacity) {
    isorb_crm_sample about{};
    return unless_empty(isorb_crm_next(get(), data, capacity, &about), about);
  }

  /// Reads the latest value in place.
  Lease lease() { return Lease(get()); }

  bool has_new() const {
    bool has_new = false;
    check(isorb_crm_has_new(get(), &has_new));
    return has_new;
  }

  std::size_t size() const {
    std::size_t size = 0;
    check(isorb_crm_reader_size(get(), &size));
    return size;
  }

  /// One of ISORB_CRM_STATE_….
  std::uint32_t state() const {
    std::uint32_t state = 0;
    check(isorb_crm_reader_state(get(), &state));
    return state;
  }

  isorb_crm_statistics statistics() const {
    isorb_crm_statistics statistics{};
    check(isorb_crm_reader_statistics(get(), &statistics));
    return statistics;
  }

  void set_running(bool running) { check(isorb_crm_set_running(get(), running)); }

  isorb_crm_reader get() const noexcept { return owner_.get(); }

 private:
  static isorb_crm_reader attach(const Session& session, const std::string& name, const isorb_crm_type& type,
                                 const isorb_crm_reader_qos& qos, nanoseconds timeout) {
    isorb_crm_reader reader{0};
    check(isorb_crm_attach_reader(session.get(), name.c_str(), &type, &qos, count(timeout), &reader));
    return reader;
  }

  static std::optional<isorb_crm_sample> unless_empty(isorb_crm_result code, const isorb_crm_sample& about) {
    if (code == ISORB_CRM_NO_VALUE) return std::nullopt;
    check(code);
    return about;
  }

  detail::Owner<isorb_crm_reader, isorb_crm_close_reader> owner_;
};

/// The writer of an area with the type T.
template <class T>
class AreaWriter : private OctetWriter {
 public:
  AreaWriter(const Session& session, const std::string& name, const isorb_crm_writer_qos& qos = {},
             nanoseconds timeout = {})
      : OctetWriter(detail::with_type<T>(
            [&](isorb_crm_type type) { return OctetWriter(type, session, name, qos, timeout); })) {}

  /// Returns the number of the value. Neither allocates nor waits.
  std::uint64_t write(const T& value) { return OctetWriter::write(&value, detail::size_in_cdr<T>()); }

  using OctetWriter::get;
  using OctetWriter::is_served;
  using OctetWriter::statistics;
};

/// A value, and what is known about it.
template <class T>
struct Value {
  T value;
  isorb_crm_sample about;
};

/// The value of T in these octets. Throws BadValue if they are none.
namespace detail {
template <class T>
T decoded(const unsigned char* octets, std::size_t len) {
  constexpr std::size_t size = size_in_cdr<T>();
  if (len != size) {
    throw BadValue("a value of " + std::to_string(len) + " octets; the type has " + std::to_string(size));
  }
  if (!is_valid<T>(octets)) throw BadValue("a boolean that is neither 0 nor 1");
  T value{};
  std::memcpy(&value, octets, size);
  return value;
}
}  // namespace detail

/// A reader of an area with the type T.
template <class T>
class AreaReader : private OctetReader {
 public:
  AreaReader(const Session& session, const std::string& name, const isorb_crm_reader_qos& qos = {},
             nanoseconds timeout = {})
      : OctetReader(detail::with_type<T>(
            [&](isorb_crm_type type) { return OctetReader(type, session, name, qos, timeout); })),
        octets_(OctetReader::size()) {}

  /// The latest value, new or not; none if nothing was written yet. Throws BadValue if another
  /// program wrote octets that are no T. Neither allocates nor waits.
  std::optional<Value<T>> latest() { return decoded(OctetReader::latest(octets_.data(), octets_.size())); }

  /// The oldest value that is kept and was not read, if there is one.
  std::optional<Value<T>> next() { return decoded(OctetReader::next(octets_.data(), octets_.size())); }

  using OctetReader::get;
  using OctetReader::has_new;
  using OctetReader::lease;
  using OctetReader::set_running;
  using OctetReader::state;
  using OctetReader::statistics;
  using OctetReader::wait;

 private:
  std::optional<Value<T>> decoded(const std::optional<isorb_crm_sample>& about) const {
    if (!about) return std::nullopt;
    return Value<T>{detail::decoded<T>(octets_.data(), about->len), *about};
  }

  std::vector<unsigned char> octets_;
};

/// A value of one of several areas, its area, and what is known about it.
template <class T>
struct NamedValue {
  T value;
  std::string area;
  isorb_crm_sample about;
};

namespace detail {
/// Octets of the longest name of an area that readers of several areas take, with its zero.
constexpr std::size_t name_capacity = 1024;

/// Where a reader of several areas copies to.
template <class T>
struct Copied {
  std::vector<unsigned char> octets = std::vector<unsigned char>(size_in_cdr<T>());
  std::vector<char> name = std::vector<char>(name_capacity);
  isorb_crm_sample about{};

  /// The value; none if the code is `none`.
  std::optional<NamedValue<T>> value(isorb_crm_result code, isorb_crm_result none) const {
    if (code == none) return std::nullopt;
    check(code);
    return NamedValue<T>{decoded<T>(octets.data(), about.len), name.data(), about};
  }
};
}  // namespace detail

/// A reader of all areas with the type T and names that match a pattern. One thread uses it at a
/// time.
template <class T>
class AreaSet {
 public:
  /// `*` stands for any characters, `?` for one. Areas that are made later join.
  AreaSet(const Session& session, const std::string& pattern, const isorb_crm_reader_qos& qos = {})
      : owner_(attach(session, pattern, qos)) {}

  /// The latest value of an area with one that was not read, each area in turn; none in time if
  /// nothing came. Throws BadValue if another program wrote octets that are no T.
  std::optional<NamedValue<T>> next(nanoseconds timeout) {
    auto& [octets, name, about] = copied_;
    return copied_.value(isorb_crm_set_next(get(), count(timeout), octets.data(), octets.size(), &about, name.data(),
                                            name.size()),
                         ISORB_CRM_TIMED_OUT);
  }

  /// Areas that are read.
  std::size_t attached() const {
    std::size_t attached = 0;
    check(isorb_crm_set_count(get(), &attached, nullptr));
    return attached;
  }

  /// Areas that match and refused the reader, such as those of another type.
  std::size_t refused() const {
    std::size_t refused = 0;
    check(isorb_crm_set_count(get(), nullptr, &refused));
    return refused;
  }

  isorb_crm_area_set get() const noexcept { return owner_.get(); }

 private:
  static isorb_crm_area_set attach(const Session& session, const std::string& pattern, const isorb_crm_reader_qos& qos) {
    return detail::with_type<T>([&](isorb_crm_type type) {
      isorb_crm_area_set set{0};
      check(isorb_crm_attach_matching(session.get(), pattern.c_str(), &type, &qos, &set));
      return set;
    });
  }

  detail::Owner<isorb_crm_area_set, isorb_crm_close_set> owner_;
  detail::Copied<T> copied_;
};

/// A reader of several areas with the type T that shows the strongest living writer. One thread
/// uses it at a time.
template <class T>
class StrongestReader {
 public:
  /// The areas with their strengths; the greatest with a living writer is shown.
  StrongestReader(const Session& session, const std::vector<std::pair<std::string, std::int32_t>>& areas,
                  const isorb_crm_reader_qos& qos = {})
      : owner_(attach(session, areas, qos)) {}

  /// Waits for a value of the area that is shown (`Event::value`), or until another area is shown,
  /// or none (`Event::state`).
  Event wait(nanoseconds timeout) {
    const isorb_crm_result code = isorb_crm_strongest_wait(get(), count(timeout));
    if (code == ISORB_CRM_TIMED_OUT) return Event::timeout;
    if (code == ISORB_CRM_CHANGED) return Event::state;
    check(code);
    return Event::value;
  }

  /// The latest value of the area that is shown; none if no writer lives or nothing was written.
  std::optional<NamedValue<T>> latest() {
    auto& [octets, name, about] = copied_;
    return copied_.value(
        isorb_crm_strongest_latest(get(), octets.data(), octets.size(), &about, name.data(), name.size()),
        ISORB_CRM_NO_VALUE);
  }

  isorb_crm_strongest get() const noexcept { return owner_.get(); }

 private:
  static isorb_crm_strongest attach(const Session& session,
                                    const std::vector<std::pair<std::string, std::int32_t>>& areas,
                                    const isorb_crm_reader_qos& qos) {
    std::vector<isorb_crm_candidate> candidates;
    for (const auto& [name, strength] : areas) candidates.push_back({name.c_str(), strength, 0});
    return detail::with_type<T>([&](isorb_crm_type type) {
      isorb_crm_strongest reader{0};
      check(isorb_crm_attach_strongest(session.get(), candidates.data(), candidates.size(), &type, &qos, &reader));
      return reader;
    });
  }

  detail::Owner<isorb_crm_strongest, isorb_crm_close_strongest> owner_;
  detail::Copied<T> copied_;
};

}  // namespace isorb::crm

/// Makes a structure the type of areas, outside all namespaces:
///
///     struct Pressure { double bar; bool valid; };
///     ISORB_CRM_AREA_TYPE(Pressure, "IDL:Plant/Pressure:1.0", ISORB_CRM_MEMBER(bar),
/// ISORB_CRM_MEMBER(valid))
///
/// All members are named, in their order. They are numbers, bool, char, arrays of them, and other
/// such structures. The type is that of the IDL structure of the same id, name and members.
#define ISORB_CRM_AREA_TYPE(Type, Id, ...)                               \
  template <>                                                            \
  struct isorb::crm::area_type<Type> {                                   \
    using Self = Type;                                                   \
    static constexpr const char* id = Id;                                \
    static constexpr const char* name = #Type;                           \
    static constexpr auto members() { return std::make_tuple(__VA_ARGS__); } \
  };

#define ISORB_CRM_MEMBER(member) \
  ::isorb::crm::detail::Member<decltype(Self::member)> { #member, offsetof(Self, member) }

#endif
