// Writes and reads in every way, against a node's server: values SOCKET
#include "check.h"

static void copies(isorb_crm_writer writer, isorb_crm_reader reader) {
  unsigned char out[16];
  isorb_crm_sample about;
  bool has_new = true;
  CODE(ISORB_CRM_NO_VALUE, isorb_crm_latest(reader, out, sizeof out, &about));
  OK(isorb_crm_has_new(reader, &has_new));
  EXPECT(!has_new);
  CODE(ISORB_CRM_TIMED_OUT, isorb_crm_wait(reader, 1000, NULL));
  for (unsigned char n = 1; n <= 5; n++) {
    uint64_t number = 0;
    OK(isorb_crm_write(writer, &n, 1, &number));
    EXPECT(number == n);
  }
  OK(isorb_crm_wait(reader, 60 * SECOND, NULL));
  OK(isorb_crm_next(reader, out, sizeof out, &about));
  EXPECT(out[0] == 3 && about.number == 3 && about.missed == 2 && about.len == 1 && about.writer == 1);
  OK(isorb_crm_latest(reader, out, sizeof out, &about));
  EXPECT(out[0] == 5 && about.missed == 1 && about.source == 5 && about.age_bound_ns == 0);
  CODE(ISORB_CRM_NO_VALUE, isorb_crm_next(reader, out, sizeof out, NULL));
  OK(isorb_crm_history(reader, 2, out, sizeof out, NULL));
  EXPECT(out[0] == 3);
  CODE(ISORB_CRM_OVERWRITTEN, isorb_crm_history(reader, 3, out, sizeof out, NULL));

  OK(isorb_crm_write(writer, "0123456789abcdef", 16, NULL));
  CODE(ISORB_CRM_WRONG_SIZE, isorb_crm_write(writer, "0123456789abcdef!", 17, NULL));
  TEXT("17 bytes");
  CODE(ISORB_CRM_BUFFER_TOO_SMALL, isorb_crm_latest(reader, out, 15, &about));
  EXPECT(about.len == 16);
  OK(isorb_crm_latest(reader, out, 16, NULL));
  EXPECT(memcmp(out, "0123456789abcdef", 16) == 0);
  OK(isorb_crm_write(writer, NULL, 0, NULL));
  OK(isorb_crm_latest(reader, NULL, 0, &about));
  EXPECT(about.len == 0);
}

static void leases(isorb_crm_writer writer, isorb_crm_reader reader) {
  isorb_crm_lease lease, second;
  isorb_crm_sample about;
  OK(isorb_crm_write(writer, "in place", 8, NULL));
  OK(isorb_crm_begin_lease(reader, &lease, &about));
  EXPECT(lease.len == 8 && about.len == 8 && memcmp(lease.data, "in place", 8) == 0);
  CODE(ISORB_CRM_LEASED, isorb_crm_begin_lease(reader, &second, NULL));
  CODE(ISORB_CRM_LEASED, isorb_crm_close_reader(reader));
  CODE(ISORB_CRM_NO_LEASE, isorb_crm_end_lease(reader, lease.lease + 1));
  OK(isorb_crm_end_lease(reader, lease.lease));
  CODE(ISORB_CRM_NO_LEASE, isorb_crm_end_lease(reader, lease.lease));

  // Two histories: the writer returns to the buffer with the fourth value after.
  OK(isorb_crm_begin_lease(reader, &lease, NULL));
  for (int n = 0; n < 3; n++) OK(isorb_crm_write(writer, "later!!!", 8, NULL));
  EXPECT(memcmp(lease.data, "in place", 8) == 0);
  OK(isorb_crm_write(writer, "too late", 8, NULL));
  CODE(ISORB_CRM_OVERWRITTEN, isorb_crm_end_lease(reader, lease.lease));
  TEXT("discard");
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  isorb_crm_session session = opened(argv[1]);
  made(session, "values", 16, 2);
  isorb_crm_area other = {"values", 17, 2, {ISORB_CRM_OCTETS, NULL, NULL}};
  CODE(ISORB_CRM_AREA_EXISTS, isorb_crm_create_area(session, &other, 0));
  CODE(ISORB_CRM_AREA_EXISTS, isorb_crm_open_or_create_area(session, &other, 0, NULL));
  isorb_crm_writer writer = writes(session, "values"), second;
  isorb_crm_reader reader = reads(session, "values");
  CODE(ISORB_CRM_WRITER_EXISTS, isorb_crm_map_writer(session, "values", &OCTETS, NULL, 0, &second));
  CODE(ISORB_CRM_UNKNOWN_AREA, isorb_crm_map_writer(session, "no such", &OCTETS, NULL, 0, &second));
  EXPECT(second.handle == 0);
  TEXT("there is no area no such");
  size_t size = 0;
  OK(isorb_crm_reader_size(reader, &size));
  EXPECT(size == 16);
  OK(isorb_crm_writer_size(writer, &size));
  EXPECT(size == 16);

  copies(writer, reader);
  leases(writer, reader);

  // Both go on after the session was closed, and end with themselves.
  OK(isorb_crm_close(session));
  OK(isorb_crm_write(writer, "x", 1, NULL));
  bool served = false;
  OK(isorb_crm_writer_is_served(writer, &served));
  EXPECT(served);
  isorb_crm_statistics counts;
  OK(isorb_crm_writer_statistics(writer, &counts));
  EXPECT(counts.values == 13 && counts.state == ISORB_CRM_STATE_OPEN);
  OK(isorb_crm_reader_statistics(reader, &counts));
  CODE(ISORB_CRM_FAILED, isorb_crm_set_running(reader, false));
  TEXT("does not read an area of another node");
  OK(isorb_crm_close_writer(writer));

  uint32_t state = 99;
  isorb_crm_result waited = isorb_crm_wait(reader, 60 * SECOND, &state);
  if (waited == ISORB_CRM_OK) {  // for the last value
    OK(isorb_crm_latest(reader, &(unsigned char){0}, 1, NULL));
    waited = isorb_crm_wait(reader, 60 * SECOND, &state);
  }
  CODE(ISORB_CRM_CHANGED, waited);
  EXPECT(state == ISORB_CRM_STATE_WRITER_GONE);
  OK(isorb_crm_reader_state(reader, &state));
  EXPECT(state == ISORB_CRM_STATE_WRITER_GONE);
  session = opened(argv[1]);
  OK(isorb_crm_destroy_area(session, "values"));
  CODE(ISORB_CRM_CHANGED, isorb_crm_wait(reader, 60 * SECOND, &state));
  EXPECT(state == ISORB_CRM_STATE_DESTROYED);
  OK(isorb_crm_close_reader(reader));
  OK(isorb_crm_close(session));
  puts("good");
  return 0;
}
