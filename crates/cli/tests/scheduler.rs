//! `isorb scheduler` as a user runs it: a configuration run is recorded, compiled, and served
//! again.

mod common;

use common::{Service, run};
use isorb::{Config, Orb};
use isorb_sched_service::rtec_scheduler::{
    Criticality_t, Dependency_Type_t, Importance_t, Info_Type_t, SchedulerRef,
};
use isorb_sched_service::rtec_scheduler_tao1 as tao1;
use isorb_testkit::TempFolder;

const MS: u64 = 10_000;

fn operation(scheduler: &SchedulerRef, name: &str, cost: u64, period: i32) -> i32 {
    let handle = scheduler.create(name).unwrap();
    let (medium, important) = (Criticality_t::MediumCriticality, Importance_t::MediumImportance);
    scheduler.set(handle, medium, cost, cost, 0, period, important, 0, 0, Info_Type_t::Operation).unwrap();
    handle
}

#[test]
fn a_configuration_run_becomes_a_schedule_file() {
    let folder = TempFolder::new();
    let record = folder.text("recorded.toml");
    let naming = Service::start(&["naming", "--port", "0", "--memory"]);
    let service = Service::start(&["scheduler", "--record", &record, "--ns", &naming.url]);
    let (code, reference, error) = run(&["name", "--ns", &naming.url, "resolve", "ScheduleService"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let orb = Orb::with_config(Config::default()).unwrap();
    let scheduler: SchedulerRef = orb.resolve(reference.trim()).unwrap();
    let imu = operation(&scheduler, "imu", 2 * MS, 330_000);
    let display = operation(&scheduler, "display", 9 * MS, 0);
    operation(&scheduler, "radar", 5 * MS, 1_000_000);
    scheduler.add_dependency(display, imu, 1, Dependency_Type_t::OneWayCall).unwrap();
    let (_, _, _, anomalies) = scheduler.compute_scheduling(1, 99).unwrap();
    assert!(anomalies.is_empty());
    let computed = ["imu", "display", "radar"].map(|name| scheduler.entry_point_priority(name).unwrap());
    // For a program of TAO 1.x.
    let older = service.url.replace("/ScheduleService", "/ScheduleService1");
    let older: tao1::SchedulerRef = orb.resolve(&older).unwrap();
    let (infos, _, _) = older.compute_scheduling(1, 99).unwrap();
    assert_eq!((&*infos[1].entry_point, infos[1].dependencies[0].rt_info), ("display", imu));
    drop(service);

    // Off line.
    let (code, table, error) = run(&["sched", "check", &record]);
    assert_eq!((code, &*error), (Some(0), ""), "{table}");
    assert!(table.contains("3 of 3 tasks meet every deadline"), "{table}");
    let text = std::fs::read_to_string(&record).unwrap();
    assert!(text.contains("priorities = [1, 99]") && text.contains("after = [\"imu\"]"), "{text}");

    // The run itself: nothing is registered, all is known.
    let again = Service::start(&["scheduler", "--schedule", &record]);
    let scheduler: SchedulerRef = orb.resolve(&again.url).unwrap();
    let known = ["imu", "display", "radar"].map(|name| scheduler.entry_point_priority(name).unwrap());
    assert_eq!(known, computed);
    assert_eq!(scheduler.lookup("radar").unwrap(), 3);
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1, "no parts are left");
}

#[test]
fn faults_of_a_schedule_are_named_at_the_start() {
    let folder = TempFolder::new();
    let file = folder.text("s.toml");
    std::fs::write(&file, "[[operation]]\nname = 'a'\ncost = '1 ms'\nafter = ['a']\n").unwrap();
    let (code, _, error) = run(&["scheduler", "--schedule", &file]);
    assert_eq!(code, Some(1));
    assert!(error.contains("s.toml:2: a: it depends on itself"), "{error}");
    std::fs::write(&file, "[[operation]]\nname = 'a'\ncost = '1 ms'\nperiod = '9 ms'\n").unwrap();
    let (code, _, error) = run(&["scheduler", "--schedule", &file, "--operations", "0"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("1 operations, and --operations allows 0"), "{error}");
    let (code, _, error) = run(&["scheduler", "--record", &folder.text("absent/r.toml")]);
    assert_eq!(code, Some(2));
    assert!(error.contains("absent/r.toml' for '--record <FILE>': "), "{error}");
    let (code, _, error) = run(&["scheduler", "--ns", "corbaloc::127.0.0.1:1/NameService"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("ScheduleService is not bound in corbaloc::127.0.0.1:1/NameService: "), "{error}");
}
