// What both programs do to share memory and to tell the time.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

[[noreturn]] inline void fail(const char* what) {
  perror(what);
  exit(1);
}

// The file, which is made if it is not there, as one `Shared`.
template <class Shared>
Shared* map(const char* file) {
  int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) fail(file);
  if (ftruncate(fd, sizeof(Shared)) != 0) fail("ftruncate");
  void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) fail("mmap");
  close(fd);
  return static_cast<Shared*>(at);
}

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}
