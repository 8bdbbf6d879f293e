// As peer.cc, with a pair of threads for each of several clients: one of them urgent, the others
// ordinary. Octets are copied into memory that both processes map and out of it again, both ways,
// as by isorb's segments; all threads sleep on a word of it. `bands server FIFO LOWS`, `bands
// client FIFO FILE`; FIFO is the urgent ones' native priority, 0 where there is none to be had. The
// client obeys the orders of crates/bench/src/contention/order.rs: the first role is the urgent
// client.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "mapped.h"

namespace {

constexpr size_t kMost = 64 << 10;
constexpr size_t kClients = 16;
// As the other clients of contests: of very many samples, those that came first.
constexpr size_t kKept = 20000;
constexpr uint64_t kSecond = 1000000000;
constexpr uint64_t kHeadStart = 40000000;

// Octets one way, and the word that says that they are there.
struct Way {
  alignas(128) std::atomic<uint32_t> count;
  uint32_t length;
  alignas(128) char octets[kMost];
};

struct Shared {
  struct {
    Way request, reply;
  } clients[kClients];
};

void give(Way& way, uint32_t count, const char* octets, uint32_t length) {
  memcpy(way.octets, octets, length);
  way.length = length;
  way.count.store(count, std::memory_order_release);
  syscall(SYS_futex, &way.count, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Until the count is no longer `seen`.
uint32_t take(Way& way, uint32_t seen, char* octets, uint32_t& length) {
  for (;;) {
    uint32_t now = way.count.load(std::memory_order_acquire);
    if (now != seen) {
      length = way.length;
      memcpy(octets, way.octets, length);
      return now;
    }
    syscall(SYS_futex, &way.count, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

void sleep_until(uint64_t ns) {
  timespec t{time_t(ns / kSecond), long(ns % kSecond)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) != 0) {
  }
}

// The first client and the thread that serves it have the high priority.
void take_priority(size_t client, int fifo) {
  sched_param priority{};
  priority.sched_priority = fifo;
  if (client == 0 && fifo > 0 && pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0) {
    fprintf(stderr, "bands: no real-time priority\n");
    exit(1);
  }
}

[[noreturn]] void serve(int fifo, size_t lows) {
  const char* folder = getenv("TMPDIR");
  std::string file = std::string(folder ? folder : "/tmp") + "/isorb-bench-bands-" + std::to_string(getpid());
  Shared* shared = map<Shared>(file.c_str());
  for (size_t i = 0; i <= lows; i++) {
    std::thread([=] {
      take_priority(i, fifo);
      auto& client = shared->clients[i];
      std::vector<char> octets(kMost, 1);
      uint32_t length = 0;
      for (uint32_t seen = 0;;) {
        seen = take(client.request, seen, octets.data(), length);
        give(client.reply, seen, octets.data(), length);
      }
    }).detach();
  }
  printf("ready %s\n", file.c_str());
  fflush(stdout);
  char rest[64];
  while (read(0, rest, sizeof rest) > 0) {
  }
  unlink(file.c_str());
  _exit(0);
}

struct Role {
  unsigned hz, payload;
};

struct Done {
  uint64_t calls = 0, due = 0, in_time = 0;
  std::vector<uint64_t> samples;
};

void play(Shared* shared, size_t i, Role role, int fifo, uint64_t start, uint64_t end, Done& done) {
  take_priority(i, fifo);
  auto& client = shared->clients[i];
  std::vector<char> request(kMost, 1), reply(kMost, 1);
  uint32_t count = client.request.count.load(), length = 0;
  auto call = [&] {
    uint64_t begun = now_ns();
    uint32_t before = count++;
    give(client.request, count, request.data(), role.payload);
    take(client.reply, before, reply.data(), length);
    uint64_t ended = now_ns();
    if (length != role.payload) fail("a reply of another length");
    done.calls++;
    if (done.samples.size() < kKept) done.samples.push_back(ended - begun);
    return ended;
  };
  done.samples.reserve(kKept);
  call();
  done = Done{0, 0, 0, std::move(done.samples)};
  done.samples.clear();
  sleep_until(start);
  if (role.hz == 0) {
    do call();
    while (now_ns() < end);
    done.due = done.in_time = done.calls;
    return;
  }
  uint64_t period = kSecond / role.hz;
  done.due = (end - start + period - 1) / period;
  for (uint64_t release = start; release < end;) {
    sleep_until(release);
    uint64_t ended = call();
    done.in_time += ended <= release + period;
    // Periods that it missed are not made up for.
    do release += period;
    while (release < ended);
  }
}

void obey(int fifo, const char* file) {
  Shared* shared = map<Shared>(file);
  // No other process opens it.
  unlink(file);
  printf("ready\n");
  fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string order, word;
    uint64_t ms = 0;
    std::vector<Role> roles;
    bool good = bool(words >> order >> ms) && order == "run";
    while (words >> word) {
      unsigned threads = 0, work = 0;
      Role role{};
      int read = sscanf(word.c_str(), "%u:%u:%u:%u:", &threads, &role.hz, &work, &role.payload);
      good = good && read == 4 && threads == 1 && work == 0 && role.payload <= kMost;
      roles.push_back(role);
    }
    if (!good || roles.empty() || roles.size() > kClients) {
      fprintf(stderr, "bands: no such order\n");
      exit(1);
    }
    std::vector<Done> done(roles.size());
    std::vector<std::thread> threads;
    uint64_t start = now_ns() + kHeadStart, end = start + ms * 1000000;
    for (size_t i = 0; i < roles.size(); i++) {
      threads.emplace_back([&, i] { play(shared, i, roles[i], fifo, start, end, done[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Done& d : done) {
      printf("role %llu %llu %llu %zu 0\n", (unsigned long long)d.calls, (unsigned long long)d.due,
             (unsigned long long)d.in_time, d.samples.size());
      fwrite(d.samples.data(), sizeof(uint64_t), d.samples.size(), stdout);
    }
    fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string part = argc == 4 ? argv[1] : "";
  int fifo = argc == 4 ? atoi(argv[2]) : 0;
  if (part == "client") {
    obey(fifo, argv[3]);
    return 0;
  }
  if (part == "server" && size_t(atoi(argv[3])) < kClients) serve(fifo, size_t(atoi(argv[3])));
  fprintf(stderr, "expected: server FIFO LOWS, or client FIFO FILE\n");
  return 2;
}
