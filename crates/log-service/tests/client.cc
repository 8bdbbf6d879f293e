// A producer, consumer and administrator of a log, on omniORB.
#include "CosLwLog.hh"
#include <cstring>
#include <iostream>
#include <unistd.h>

using namespace CosLwLog;

#define CHECK(condition)                                                  \
  if (!(condition)) {                                                     \
    std::cerr << "line " << __LINE__ << ": not " #condition << std::endl; \
    return 1;                                                             \
  }

static ProducerLogRecord record(const char *producer, LogLevel level, const char *text) {
  ProducerLogRecord made;
  made.producerId = producer;
  made.producerName = "omniORB";
  made.level = level;
  made.logData = text;
  return made;
}

static int use(Log_ptr log) {
  CHECK(log->_is_a("IDL:omg.org/CosLwLog/LogConsumer:1.0"));
  CHECK(log->get_n_records() == 0);
  log->write_record(record("radar", FAILURE_ALARM, "no echo"));
  ProducerLogRecordSequence two;
  two.length(2);
  two[0] = record("pump", STATISTIC_REPORT, "12 bar");
  two[1] = record("radar", 26, "");
  log->write_records(two);
  // Both are oneway.
  for (int i = 0; i < 3000 && log->get_n_records() < 3; i++) usleep(10000);
  CHECK(log->get_n_records() == 3);

  RecordId id = 0;
  CORBA::ULong number = 100;
  LogRecordSequence_var all = log->retrieve_records(id, number);
  CHECK(all->length() == 3 && number == 3 && id == 4);
  CHECK(all[0u].id == 1 && !strcmp(all[0u].info.logData, "no echo") && all[0u].info.level == FAILURE_ALARM);
  CHECK(all[0u].time.seconds > 1600000000 && all[2u].info.level == 26);
  CHECK(log->get_record_id_from_time(all[0u].time) == 1);

  StringSeq names;
  names.length(1);
  names[0] = "radar";
  id = 0, number = 100;
  LogRecordSequence_var radar = log->retrieve_records_by_producer_id(id, number, names);
  CHECK(radar->length() == 2 && radar[1u].id == 3);
  LogLevelSequence levels;
  levels.length(1);
  levels[0] = STATISTIC_REPORT;
  id = 0, number = 100;
  LogRecordSequence_var reports = log->retrieve_records_by_level(id, number, levels);
  CHECK(reports->length() == 1 && !strcmp(reports[0u].info.producerId, "pump"));

  try {
    log->set_max_size(1);
    CHECK(!"refused");
  } catch (const InvalidParam &wrong) {
    CHECK(strlen(wrong.details) > 0);
  }
  try {
    LogTime wrong;
    wrong.seconds = 0;
    wrong.nanoseconds = -1;
    log->get_record_id_from_time(wrong);
    CHECK(!"refused");
  } catch (const InvalidParam &) {
  }
  log->set_log_full_action(HALT);
  CHECK(log->get_log_full_action() == HALT);
  log->set_administrative_state(locked);
  CHECK(log->get_administrative_state() == locked && log->get_operational_state() == enabled);
  CHECK(log->get_availability_status().off_duty && !log->get_availability_status().log_full);
  log->clear_log();
  CHECK(log->get_n_records() == 0 && log->get_current_size() == 0);
  log->destroy();
  CHECK(log->_non_existent());
  return 0;
}

int main(int argc, char **argv) {
  try {
    CORBA::ORB_var orb = CORBA::ORB_init(argc, argv);
    CORBA::Object_var object = orb->string_to_object(argv[1]);
    Log_var log = Log::_narrow(object);
    if (CORBA::is_nil(log) || use(log) != 0) return 1;
    std::cout << "ok" << std::endl;
    orb->destroy();
    return 0;
  } catch (const CORBA::SystemException &exception) {
    std::cerr << exception._name() << " " << exception.NP_minorString() << std::endl;
    return 1;
  }
}
