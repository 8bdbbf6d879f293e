// The omniORB client of the benchmark: its last argument is the server's reference; obeys the lines
// of the protocol in crates/bench/src/protocol.rs.
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "bench.hh"
#include "peer.h"

namespace {

constexpr CORBA::ULong kReadings = 64;

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

// Inlined into each case, so that no case pays for an indirect call that the others do not have.
template <typename Call>
void two_way(unsigned long warm, std::vector<uint64_t>& samples, Call call) {
  for (unsigned long i = 0; i < warm; i++) call();
  for (uint64_t& sample : samples) {
    uint64_t start = now_ns();
    call();
    sample = now_ns() - start;
  }
}

template <typename Send>
uint64_t burst(Bench::Target_ptr target, unsigned long calls, Send send) {
  if (calls == 0) return 0;
  uint64_t start = now_ns();
  for (unsigned long i = 0; i < calls; i++) send();
  target->fed();
  return now_ns() - start;
}

[[noreturn]] void unexpected(const char* what) {
  fprintf(stderr, "omniorb client: %s\n", what);
  exit(1);
}

void run(Bench::Target_ptr target, const std::string& name, CORBA::ULong size, unsigned long warm, unsigned long calls,
         std::vector<uint64_t>& samples) {
  Bench::Octets octets;
  samples.assign(calls, 0);
  if (name == "void") {
    two_way(warm, samples, [&] { target->ping(); });
  } else if (name == "octets") {
    octets.length(size);
    memset(octets.get_buffer(), 1, size);
    two_way(warm, samples, [&] {
      Bench::Octets_var back = target->echo(octets);
      if (back->length() != size) unexpected("an echo of another length");
    });
  } else if (name == "string") {
    std::string text(size, 'x');
    two_way(warm, samples, [&] { CORBA::String_var back = target->text(text.c_str()); });
  } else if (name == "structs") {
    Bench::Readings readings;
    readings.length(kReadings);
    for (CORBA::ULong i = 0; i < kReadings; i++) {
      readings[i].value = i;
      readings[i].stamp = i;
      readings[i].unit = CORBA::string_dup("Cel");
    }
    two_way(warm, samples, [&] {
      Bench::Readings_var back = target->structs(readings);
      if (back->length() != kReadings) unexpected("another number of readings");
    });
  } else if (name == "plain") {
    Bench::Samples sent;
    sent.length(size / 16);
    for (CORBA::ULong i = 0; i < sent.length(); i++) {
      sent[i].value = i;
      sent[i].stamp = i;
    }
    two_way(warm, samples, [&] {
      Bench::Samples_var back = target->plain(sent);
      if (back->length() != sent.length()) unexpected("another number of samples");
    });
  } else if (name == "oneway" || name == "post") {
    octets.length(size);
    memset(octets.get_buffer(), 1, size);
    samples.assign(calls == 0 ? 0 : 1, 0);
    auto run_bursts = [&](auto send) {
      burst(target, warm, send);
      if (calls > 0) samples[0] = burst(target, calls, send) / calls;
    };
    if (name == "oneway") {
      run_bursts([&] { target->feed(octets); });
    } else {
      Bench::Message message;
      message.work = 0;
      message.payload = octets;
      run_bursts([&] { target->post(message); });
    }
  } else if (name == "message") {
    Bench::Message message;
    message.work = 0;
    message.payload.length(size);
    memset(message.payload.get_buffer(), 1, size);
    two_way(warm, samples, [&] { target->method(message); });
    if (message.payload.length() != size) unexpected("a message of another length");
  } else {
    unexpected("no such case");
  }
}

}  // namespace

int main(int argc, char** argv) {
  die_with_parent();
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    if (argc != 2) unexpected("expects one argument, the reference");
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    Bench::Target_var target = Bench::Target::_narrow(object);
    if (CORBA::is_nil(target)) unexpected("the reference is no Bench::Target");
    target->ping();
    printf("ready\n");
    fflush(stdout);
    std::vector<uint64_t> samples;
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream words(line);
      std::string order, name;
      CORBA::ULong size;
      unsigned long warm, calls;
      if (!(words >> order >> name >> size >> warm >> calls) || order != "block") unexpected("no such order");
      run(target, name, size, warm, calls, samples);
      printf("samples %zu\n", samples.size());
      fwrite(samples.data(), sizeof(uint64_t), samples.size(), stdout);
      fflush(stdout);
    }
  } catch (const CORBA::Exception& e) {
    fprintf(stderr, "omniorb client: %s\n", e._name());
    return 1;
  }
  // The ORB's tear-down waits for its threads; the harness does not want to.
  _exit(0);
}
