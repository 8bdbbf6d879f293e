// Prints what a write and a read of the value take, in nanoseconds: cost SOCKET
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <time.h>

enum { ROUNDS = 20, PAIRS = 100000 };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  isorb_crm_session session = opened(argv[1]);
  made(session, "cost", 64, 3);
  isorb_crm_writer writer = writes(session, "cost");
  isorb_crm_reader reader = reads(session, "cost");
  unsigned char value[64] = {0}, out[64];
  double least = 1e18;
  for (int round = 0; round < ROUNDS; round++) {
    const double begin = now_ns();
    for (int i = 0; i < PAIRS; i++) {
      value[0] = (unsigned char)i;
      OK(isorb_crm_write(writer, value, sizeof value, NULL));
      OK(isorb_crm_latest(reader, out, sizeof out, NULL));
      EXPECT(out[0] == value[0]);
    }
    const double took = (now_ns() - begin) / PAIRS;
    if (took < least) least = took;
  }
  printf("%.1f\n", least);
  OK(isorb_crm_close_reader(reader));
  OK(isorb_crm_close_writer(writer));
  OK(isorb_crm_close(session));
  return 0;
}
