// Mistakes are errors: misuse SOCKET
#include "check.h"
#include <pthread.h>

static isorb_crm_reader shared;

static void *waits(void *unused) {
  (void)unused;
  isorb_crm_result code;
  // The other thread looks meanwhile, and may be the first.
  do code = isorb_crm_wait(shared, 60 * SECOND, NULL);
  while (code == ISORB_CRM_BUSY);
  OK(code);
  return NULL;
}

static void arguments(isorb_crm_session session, const char *socket) {
  isorb_crm_session other;
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_open(ISORB_CRM_VERSION, socket, 0, NULL));
  TEXT("the argument out is null");
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_open(ISORB_CRM_VERSION, "\xff", 0, &other));
  TEXT("the argument socket is not UTF-8");
  CODE(ISORB_CRM_WRONG_VERSION, isorb_crm_open(ISORB_CRM_VERSION + 1, socket, 0, &other));
  CODE(ISORB_CRM_UNAVAILABLE, isorb_crm_open(ISORB_CRM_VERSION, "/no/such/socket", 0, &other));
  TEXT("/no/such/socket");
  EXPECT(other.handle == 0);

  isorb_crm_writer writer;
  isorb_crm_reader reader;
  isorb_crm_type none = {0, NULL, NULL};
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_map_writer(session, "misuse", &none, NULL, 0, &writer));
  TEXT("ISORB_CRM_OCTETS");
  isorb_crm_type nameless = {ISORB_CRM_TYPED, NULL, "struct A { long a; }"};
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_map_writer(session, "misuse", &nameless, NULL, 0, &writer));
  TEXT("type.id is null");
  isorb_crm_type named = {ISORB_CRM_OCTETS, "IDL:A:1.0", NULL};
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_reader(session, "misuse", &named, NULL, 0, &reader));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_reader(session, NULL, &OCTETS, NULL, 0, &reader));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_reader(session, "misuse", NULL, NULL, 0, &reader));
  isorb_crm_reader_qos wrong[5] = {{.mode = 2}, {.path = 4}, {.guaranteed = 3}, {.parity = 256}, {.reserved = 1}};
  for (int i = 0; i < 5; i++)
    CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_attach_reader(session, "misuse", &OCTETS, &wrong[i], 0, &reader));
  isorb_crm_area any = {"any", 8, 0, {ISORB_CRM_ANY_TYPE, NULL, NULL}};
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_create_area(session, &any, 0));
  isorb_crm_area empty = {"empty", 0, 0, {ISORB_CRM_OCTETS, NULL, NULL}};
  CODE(ISORB_CRM_WRONG_SIZE, isorb_crm_create_area(session, &empty, 0));
  isorb_crm_area huge = {"huge", 0xffffffff, 5000, {ISORB_CRM_OCTETS, NULL, NULL}};
  CODE(ISORB_CRM_WRONG_SIZE, isorb_crm_create_area(session, &huge, 0));
}

static void pointers(isorb_crm_writer writer, isorb_crm_reader reader) {
  _Alignas(8) unsigned char octets[64];
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_write(writer, NULL, 4, NULL));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_write(writer, "1234", 4, (uint64_t *)(octets + 1)));
  TEXT("not aligned");
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_write(writer, octets, SIZE_MAX, NULL));
  CODE(ISORB_CRM_WRONG_SIZE, isorb_crm_write(writer, octets, 9, NULL));
  CODE(ISORB_CRM_NO_VALUE, isorb_crm_latest(reader, octets, 8, NULL));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_latest(reader, NULL, 8, NULL));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_latest(reader, octets, SIZE_MAX, NULL));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_begin_lease(reader, NULL, NULL));
  isorb_crm_lease lease;
  CODE(ISORB_CRM_NO_VALUE, isorb_crm_begin_lease(reader, &lease, NULL));
  EXPECT(lease.data == NULL);
  CODE(ISORB_CRM_NO_LEASE, isorb_crm_end_lease(reader, 0));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_reader_state(reader, NULL));
  CODE(ISORB_CRM_INVALID_ARGUMENT, isorb_crm_reader_statistics(reader, NULL));
}

static void threads(isorb_crm_writer writer, isorb_crm_reader reader) {
  pthread_t thread;
  shared = reader;
  EXPECT(pthread_create(&thread, NULL, waits, NULL) == 0);
  isorb_crm_result code;
  bool has_new;
  do code = isorb_crm_has_new(reader, &has_new);
  while (code == ISORB_CRM_OK);
  CODE(ISORB_CRM_BUSY, code);
  TEXT("another thread");
  CODE(ISORB_CRM_BUSY, isorb_crm_close_reader(reader));
  OK(isorb_crm_write(writer, "wake", 4, NULL));
  EXPECT(pthread_join(thread, NULL) == 0);
  OK(isorb_crm_has_new(reader, &has_new));
}

static void closed(isorb_crm_session session, isorb_crm_writer writer, isorb_crm_reader reader) {
  isorb_crm_lease lease;
  OK(isorb_crm_begin_lease(reader, &lease, NULL));
  OK(isorb_crm_end_lease(reader, lease.lease));
  OK(isorb_crm_close_writer(writer));
  OK(isorb_crm_close_reader(reader));
  OK(isorb_crm_close(session));
  unsigned char out[8];
  CODE(ISORB_CRM_CLOSED, isorb_crm_write(writer, "1", 1, NULL));
  CODE(ISORB_CRM_CLOSED, isorb_crm_close_writer(writer));
  CODE(ISORB_CRM_CLOSED, isorb_crm_latest(reader, out, sizeof out, NULL));
  CODE(ISORB_CRM_CLOSED, isorb_crm_wait(reader, 0, NULL));
  CODE(ISORB_CRM_CLOSED, isorb_crm_end_lease(reader, lease.lease));
  CODE(ISORB_CRM_CLOSED, isorb_crm_close_reader(reader));
  CODE(ISORB_CRM_CLOSED, isorb_crm_close(session));
  CODE(ISORB_CRM_CLOSED, isorb_crm_destroy_area(session, "misuse"));
  CODE(ISORB_CRM_CLOSED, isorb_crm_attach_reader(session, "misuse", &OCTETS, NULL, 0, &reader));
  CODE(ISORB_CRM_CLOSED, isorb_crm_write((isorb_crm_writer){0}, "1", 1, NULL));
  CODE(ISORB_CRM_CLOSED, isorb_crm_write((isorb_crm_writer){0x123456789abcdefull}, "1", 1, NULL));
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  EXPECT(isorb_crm_error_text()[0] == 0);
  isorb_crm_session session = opened(argv[1]);
  made(session, "misuse", 8, 1);
  isorb_crm_writer writer = writes(session, "misuse");
  isorb_crm_reader reader = reads(session, "misuse");
  arguments(session, argv[1]);
  pointers(writer, reader);
  threads(writer, reader);
  // A new one in the slot of a closed one has another number.
  isorb_crm_reader first = reads(session, "misuse");
  OK(isorb_crm_close_reader(first));
  isorb_crm_reader next = reads(session, "misuse");
  EXPECT(first.handle != next.handle);
  CODE(ISORB_CRM_CLOSED, isorb_crm_wait(first, 0, NULL));
  OK(isorb_crm_close_reader(next));
  closed(session, writer, reader);
  puts("good");
  return 0;
}
