// What the programs of the tests share.
#include "isorb_crm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull

static void expect(bool good, const char *what, int line) {
  if (!good) {
    fprintf(stderr, "line %d: not so: %s; last failure: %s\n", line, what, isorb_crm_error_text());
    exit(1);
  }
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void expect_code(isorb_crm_result code, isorb_crm_result expected, const char *what, int line) {
  if (code != expected) {
    fprintf(stderr, "line %d: %s gave %s instead of %s: %s\n", line, what, isorb_crm_result_name(code),
            isorb_crm_result_name(expected), isorb_crm_error_text());
    exit(1);
  }
}

#define CODE(expected, call) expect_code(call, expected, #call, __LINE__)
#define OK(call) CODE(ISORB_CRM_OK, call)
#define TEXT(part) EXPECT(strstr(isorb_crm_error_text(), part) != NULL)

static const isorb_crm_type OCTETS = {ISORB_CRM_OCTETS, NULL, NULL};

static isorb_crm_session opened(const char *socket) {
  isorb_crm_session session;
  OK(isorb_crm_open(ISORB_CRM_VERSION, socket, 60 * SECOND, &session));
  return session;
}

static void made(isorb_crm_session session, const char *name, uint32_t size, uint32_t histories) {
  isorb_crm_area area = {name, size, histories, {ISORB_CRM_OCTETS, NULL, NULL}};
  bool created = false;
  OK(isorb_crm_open_or_create_area(session, &area, 60 * SECOND, &created));
}

static isorb_crm_writer writes(isorb_crm_session session, const char *name) {
  isorb_crm_writer writer;
  OK(isorb_crm_map_writer(session, name, &OCTETS, NULL, 60 * SECOND, &writer));
  return writer;
}

static isorb_crm_reader reads(isorb_crm_session session, const char *name) {
  isorb_crm_reader reader;
  OK(isorb_crm_attach_reader(session, name, &OCTETS, NULL, 60 * SECOND, &reader));
  return reader;
}
