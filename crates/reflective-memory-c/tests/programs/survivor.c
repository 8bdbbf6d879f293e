// Lives through the death of its server: survivor SOCKET. Prints a line when the server may be
// killed; a line of input says that there is a new one.
#include "check.h"

static void ready(const char *what) {
  printf("READY %s\n", what);
  fflush(stdout);
}

static void awaits_parent(void) {
  EXPECT(getchar() == '\n');
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  isorb_crm_session session = opened(argv[1]);
  made(session, "survivor", 8, 1);
  isorb_crm_writer writer = writes(session, "survivor");
  isorb_crm_reader reader = reads(session, "survivor");
  unsigned char out[8];
  OK(isorb_crm_write(writer, "before", 6, NULL));
  ready("to lose the server");
  awaits_parent();

  // Without a server, values go on.
  bool served = true;
  while (served) OK(isorb_crm_writer_is_served(writer, &served));
  OK(isorb_crm_write(writer, "during", 6, NULL));
  OK(isorb_crm_wait(reader, 60 * SECOND, NULL));
  OK(isorb_crm_latest(reader, out, sizeof out, NULL));
  EXPECT(memcmp(out, "during", 6) == 0);
  isorb_crm_reader later;
  CODE(ISORB_CRM_UNAVAILABLE, isorb_crm_attach_reader(session, "survivor", &OCTETS, NULL, 0, &later));
  TEXT(argv[1]);
  ready("for the next server");
  awaits_parent();

  while (!served) OK(isorb_crm_writer_is_served(writer, &served));
  later = reads(session, "survivor");
  OK(isorb_crm_write(writer, "after", 5, NULL));
  OK(isorb_crm_latest(later, out, sizeof out, NULL));
  EXPECT(memcmp(out, "after", 5) == 0);
  isorb_crm_statistics counts;
  OK(isorb_crm_reader_statistics(later, &counts));
  ready("good");
  awaits_parent();
  return 0;
}
