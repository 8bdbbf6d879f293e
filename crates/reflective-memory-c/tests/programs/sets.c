// Readers of several areas, with other areas that come from Rust: sets SOCKET
#include "check.h"

static void matching(isorb_crm_session session) {
  isorb_crm_area_set set;
  unsigned char out[16];
  char name[32];
  isorb_crm_sample about;
  size_t attached = 9, refused = 9;
  OK(isorb_crm_attach_matching(session, "plant/*", &OCTETS, NULL, &set));
  OK(isorb_crm_set_count(set, &attached, &refused));
  EXPECT(attached == 0 && refused == 0);
  CODE(ISORB_CRM_TIMED_OUT, isorb_crm_set_next(set, 0, out, sizeof out, &about, name, sizeof name));

  // Areas that are made later join; one that does not match does not.
  made(session, "plant/a", 16, 1);
  made(session, "plant/b", 16, 1);
  made(session, "other", 16, 1);
  isorb_crm_writer a = writes(session, "plant/a"), b = writes(session, "plant/b");
  isorb_crm_writer other = writes(session, "other");
  OK(isorb_crm_write(other, "x", 1, NULL));
  OK(isorb_crm_write(a, "first", 5, NULL));
  OK(isorb_crm_write(b, "second", 6, NULL));
  OK(isorb_crm_set_next(set, 60 * SECOND, out, sizeof out, &about, name, sizeof name));
  EXPECT(strcmp(name, "plant/a") == 0 && about.len == 5 && memcmp(out, "first", 5) == 0);
  // Too little room reads nothing.
  CODE(ISORB_CRM_BUFFER_TOO_SMALL, isorb_crm_set_next(set, 60 * SECOND, out, 5, &about, name, sizeof name));
  EXPECT(about.len == 6 && strcmp(name, "plant/b") == 0);
  CODE(ISORB_CRM_BUFFER_TOO_SMALL, isorb_crm_set_next(set, 60 * SECOND, out, sizeof out, NULL, name, 7));
  TEXT("name_capacity");
  OK(isorb_crm_set_next(set, 60 * SECOND, out, sizeof out, NULL, name, 8));
  EXPECT(strcmp(name, "plant/b") == 0 && memcmp(out, "second", 6) == 0);
  CODE(ISORB_CRM_TIMED_OUT, isorb_crm_set_next(set, 1000, out, sizeof out, NULL, NULL, 0));
  // Each in turn.
  OK(isorb_crm_write(a, "1", 1, NULL));
  OK(isorb_crm_write(b, "2", 1, NULL));
  OK(isorb_crm_set_next(set, 60 * SECOND, out, sizeof out, NULL, NULL, 0));
  EXPECT(out[0] == '1');
  OK(isorb_crm_write(a, "3", 1, NULL));
  OK(isorb_crm_set_next(set, 60 * SECOND, out, sizeof out, NULL, NULL, 0));
  EXPECT(out[0] == '2');
  OK(isorb_crm_set_count(set, &attached, NULL));
  EXPECT(attached == 2);

  // The area of Rust has a type.
  isorb_crm_area_set all;
  isorb_crm_type any = {ISORB_CRM_ANY_TYPE, NULL, NULL};
  OK(isorb_crm_attach_matching(session, "typed*", &OCTETS, NULL, &all));
  OK(isorb_crm_set_count(all, &attached, &refused));
  EXPECT(attached == 0 && refused == 1);
  OK(isorb_crm_close_set(all));
  OK(isorb_crm_attach_matching(session, "typed*", &any, NULL, &all));
  OK(isorb_crm_set_count(all, &attached, &refused));
  EXPECT(attached == 1 && refused == 0);
  OK(isorb_crm_close_set(all));

  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_matching(session, NULL, &OCTETS, NULL, &all));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_matching(session, "*", &OCTETS, NULL, NULL));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_set_next(set, 0, NULL, 16, NULL, NULL, 0));
  OK(isorb_crm_close_set(set));
  CODE(ISORB_CRM_CLOSED, isorb_crm_close_set(set));
  CODE(ISORB_CRM_CLOSED, isorb_crm_set_count(set, NULL, NULL));
  CODE(ISORB_CRM_CLOSED, isorb_crm_set_next(set, 0, out, sizeof out, NULL, NULL, 0));
  OK(isorb_crm_close_writer(a));
  OK(isorb_crm_close_writer(b));
  OK(isorb_crm_close_writer(other));
}

static void strongest(isorb_crm_session session) {
  const isorb_crm_candidate areas[] = {{"level/spare", 1, 0}, {"level/main", 10, 0}};
  isorb_crm_strongest reader;
  unsigned char out[16];
  char name[32];
  isorb_crm_sample about;
  // Both areas are missing.
  OK(isorb_crm_attach_strongest(session, areas, 2, &OCTETS, NULL, &reader));
  CODE(ISORB_CRM_NO_VALUE, isorb_crm_strongest_latest(reader, out, sizeof out, &about, name, sizeof name));
  TEXT("no writer");
  CODE(ISORB_CRM_TIMED_OUT, isorb_crm_strongest_wait(reader, 1000));

  made(session, "level/spare", 16, 1);
  isorb_crm_writer spare = writes(session, "level/spare");
  CODE(ISORB_CRM_CHANGED, isorb_crm_strongest_wait(reader, 60 * SECOND));
  OK(isorb_crm_write(spare, "spare", 5, NULL));
  OK(isorb_crm_strongest_wait(reader, 60 * SECOND));
  OK(isorb_crm_strongest_latest(reader, out, sizeof out, &about, name, sizeof name));
  EXPECT(strcmp(name, "level/spare") == 0 && about.len == 5 && memcmp(out, "spare", 5) == 0);

  made(session, "level/main", 16, 1);
  isorb_crm_writer main = writes(session, "level/main");
  CODE(ISORB_CRM_CHANGED, isorb_crm_strongest_wait(reader, 60 * SECOND));
  OK(isorb_crm_write(main, "main", 4, NULL));
  OK(isorb_crm_strongest_wait(reader, 60 * SECOND));
  OK(isorb_crm_strongest_latest(reader, out, sizeof out, NULL, name, sizeof name));
  EXPECT(strcmp(name, "level/main") == 0 && memcmp(out, "main", 4) == 0);

  OK(isorb_crm_close_writer(main));
  CODE(ISORB_CRM_CHANGED, isorb_crm_strongest_wait(reader, 60 * SECOND));
  OK(isorb_crm_strongest_latest(reader, out, sizeof out, NULL, name, sizeof name));
  EXPECT(strcmp(name, "level/spare") == 0);

  // A reader of one area has the same value.
  isorb_crm_reader plain = reads(session, "level/spare");
  OK(isorb_crm_latest(plain, out, sizeof out, NULL));
  EXPECT(memcmp(out, "spare", 5) == 0);
  OK(isorb_crm_close_reader(plain));

  isorb_crm_strongest none;
  const isorb_crm_candidate odd[] = {{"level/main", 1, 7}};
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_strongest(session, areas, 0, &OCTETS, NULL, &none));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_strongest(session, NULL, 1, &OCTETS, NULL, &none));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_strongest(session, odd, 1, &OCTETS, NULL, &none));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_strongest(session, areas, SIZE_MAX, &OCTETS, NULL, &none));
  OK(isorb_crm_close_strongest(reader));
  CODE(ISORB_CRM_CLOSED, isorb_crm_close_strongest(reader));
  CODE(ISORB_CRM_CLOSED, isorb_crm_strongest_wait(reader, 0));
  CODE(ISORB_CRM_CLOSED, isorb_crm_strongest_latest(reader, out, sizeof out, NULL, NULL, 0));
  OK(isorb_crm_close_writer(spare));
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  isorb_crm_session session = opened(argv[1]);
  matching(session);
  strongest(session);
  OK(isorb_crm_close(session));
  puts("good");
  return 0;
}
