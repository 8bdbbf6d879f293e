// The producers' node of the cremes experiments: one high producer, and low ones every 100 ms, a
// thread each. Arguments: the server's reference, how many low ones, octets of a value, the high
// one's period (ns). The high one's first value is one more. Says "ready", is told "go" with the
// start (ns of CLOCK_MONOTONIC), the high one's delay (ns) and the length (ms) of each pass, says
// "done".
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cremes.hh"
#include "peer.h"

namespace {

constexpr uint64_t kLowPeriod = 100000000;
constexpr CORBA::ULong kStamp = 12;

struct Pass {
  uint64_t start, offset, ms;
};

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t high_period = 0;
  int connected = 0;
  bool open = false;
  std::vector<Pass> passes;
};

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

void sleep_until(uint64_t at) {
  timespec t{time_t(at / 1000000000), long(at % 1000000000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

void produce(Cremes::Sink_ptr sink, uint16_t pair, CORBA::ULong size, Gate& gate) {
  if (pair > 0) {
    sched_param ordinary{};
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &ordinary);
  }
  uint64_t period = pair == 0 ? gate.high_period : kLowPeriod;
  Cremes::Octets value;
  sink->push(value);
  value.length(size < kStamp ? kStamp : size);
  memset(value.get_buffer(), 0, value.length());
  std::unique_lock<std::mutex> lock(gate.mutex);
  gate.connected++;
  gate.changed.notify_all();
  gate.changed.wait(lock, [&] { return gate.open; });
  std::vector<Pass> passes = gate.passes;
  lock.unlock();
  for (uint16_t number = 0; number < passes.size(); number++) {
    const Pass& pass = passes[number];
    uint64_t first = pass.start + (pair == 0 ? pass.offset : 0);
    uint64_t values = std::max<uint64_t>(pass.ms * 1000000 / period, 1) + (pair == 0);
    for (uint64_t k = 0; k < values; k++) {
      sleep_until(first + k * period);
      uint64_t at = now_ns();
      CORBA::Octet* head = value.get_buffer();
      memcpy(head, &at, 8);
      memcpy(head + 8, &pair, 2);
      memcpy(head + 10, &number, 2);
      sink->push(value);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  die_with_parent();
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    if (argc != 5) {
      fprintf(stderr, "omniorb client: expects a reference, the number of low producers, the octets of a value, the high producer's period\n");
      return 1;
    }
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    Cremes::Sink_var sink = Cremes::Sink::_narrow(object);
    int low = atoi(argv[2]);
    CORBA::ULong size = CORBA::ULong(atoi(argv[3]));
    Gate gate;
    gate.high_period = strtoull(argv[4], nullptr, 10);
    std::vector<std::thread> threads;
    for (int pair = 0; pair <= low; pair++) {
      threads.emplace_back([&, pair] {
        try {
          produce(sink.in(), uint16_t(pair), size, gate);
        } catch (const CORBA::Exception& e) {
          fprintf(stderr, "omniorb client: %s\n", e._name());
          _exit(1);
        }
      });
    }
    {
      std::unique_lock<std::mutex> lock(gate.mutex);
      gate.changed.wait(lock, [&] { return gate.connected == low + 1; });
    }
    printf("ready\n");
    fflush(stdout);
    std::string line, word;
    if (!std::getline(std::cin, line)) return 0;
    std::istringstream words(line);
    Pass pass;
    if (!(words >> word) || word != "go") return 1;
    {
      std::lock_guard<std::mutex> lock(gate.mutex);
      while (words >> pass.start >> pass.offset >> pass.ms) gate.passes.push_back(pass);
      gate.open = true;
      gate.changed.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
    printf("done\n");
    fflush(stdout);
  } catch (const CORBA::Exception& e) {
    fprintf(stderr, "omniorb client: %s\n", e._name());
    return 1;
  }
  // The ORB's tear-down waits for its threads; the harness does not want to.
  _exit(0);
}
