// Two processes that hand a word of shared memory to and fro and sleep on it. Every transport that
// sleeps at both ends has at least this cost.
// `peer server`, `peer client FILE`; obeys the lines of the protocol in
// crates/bench/src/protocol.rs, void calls only.
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
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

// A word each way, on lines of their own.
struct Shared {
  alignas(128) std::atomic<uint32_t> request;
  alignas(128) std::atomic<uint32_t> reply;
};

void give(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Until the word is no longer `seen`.
uint32_t take(std::atomic<uint32_t>& word, uint32_t seen) {
  for (;;) {
    uint32_t now = word.load(std::memory_order_acquire);
    if (now != seen) return now;
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

void serve() {
  const char* folder = getenv("TMPDIR");
  std::string file = std::string(folder ? folder : "/tmp") + "/isorb-bench-futex-" + std::to_string(getpid());
  Shared* shared = map<Shared>(file.c_str());
  std::thread([file] {
    char rest[64];
    while (read(0, rest, sizeof rest) > 0) {
    }
    unlink(file.c_str());
    _exit(0);
  }).detach();
  printf("ready %s\n", file.c_str());
  fflush(stdout);
  for (uint32_t seen = 0;;) {
    seen = take(shared->request, seen);
    give(shared->reply, seen);
  }
}

void call(const char* file) {
  Shared* shared = map<Shared>(file);
  // No other process opens it.
  unlink(file);
  uint32_t count = shared->request.load();
  auto once = [&] {
    uint32_t before = count++;
    give(shared->request, count);
    take(shared->reply, before);
  };
  once();
  printf("ready\n");
  fflush(stdout);
  std::vector<uint64_t> samples;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string order, name;
    unsigned long size, warm, calls;
    if (!(words >> order >> name >> size >> warm >> calls) || order != "block" || name != "void") {
      fprintf(stderr, "futex: no such order\n");
      exit(1);
    }
    unsigned long gap_us = 0;
    words >> gap_us;
    samples.assign(calls, 0);
    for (unsigned long i = 0; i < warm; i++) once();
    for (uint64_t& sample : samples) {
      if (gap_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(gap_us));
      uint64_t start = now_ns();
      once();
      sample = now_ns() - start;
    }
    printf("samples %zu\n", samples.size());
    fwrite(samples.data(), sizeof(uint64_t), samples.size(), stdout);
    fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc == 2 && strcmp(argv[1], "server") == 0) serve();
  if (argc == 3 && strcmp(argv[1], "client") == 0) {
    call(argv[2]);
    return 0;
  }
  fprintf(stderr, "expected: server, or client FILE\n");
  return 2;
}
