//! What a program of TAO 2.2.2 sends to its scheduling service, octet by octet, and what it is able
//! to read of the answers.

use isorb::{Config, Orb, Reference};
use isorb_cdr::{Decode, Decoder, Order, Text};
use isorb_sched::schedule::Config as ScheduleConfig;
use isorb_sched_service::rtec_scheduler::scheduler::{
    GetConfigInfosError, SetDependencyEnableStateError, SetRtInfoEnableStateError, SetSeqError,
};
use isorb_sched_service::rtec_scheduler::{
    Anomaly_Severity, Config_Info, Criticality_t, Dependency_Info, Dependency_Type_t, Importance_t, RT_Info,
    RT_Info_Enable_State_Pair, RT_Info_Enabled_Type_t, SchedulerRef, Scheduling_Anomaly,
};
use isorb_sched_service::{SchedulerService, Tao1Scheduler};
use isorb_sched_service::{rtec_base::Dependency_Enabled_Type_t, rtec_scheduler_tao1 as tao1};
use isorb_scope::Region;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

const MS: u64 = 10_000;
const KEY: &str = "ScheduleService";

/// A service, a reference of each version to it from another ORB, and its port.
fn service() -> (Orb, SchedulerRef, tao1::SchedulerRef, u16) {
    let orb = Orb::init(["-ORBEndPoint".into(), "127.0.0.1:0".into()]).unwrap();
    let servant = Arc::new(SchedulerService::new(ScheduleConfig::default(), 32));
    let poa = orb.root_poa().unwrap();
    let newer: SchedulerRef = poa.activate(servant.clone()).unwrap();
    let older: tao1::SchedulerRef = poa.activate(Arc::new(Tao1Scheduler::new(servant))).unwrap();
    orb.register_corbaloc_key(KEY, newer.object());
    poa.manager().activate().unwrap();
    let client = Orb::with_config(Config::default()).unwrap();
    let port = orb.endpoint_addresses()[0].1;
    let far = client.resolve(&newer.object().to_string()).unwrap();
    let far_older = client.resolve(&older.object().to_string()).unwrap();
    (orb, far, far_older, port)
}

fn hex(text: &str) -> Vec<u8> {
    let digits = if text == "-" { "" } else { text };
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// A GIOP 1.2 request to the object with the key of the service, as TAO sends it.
fn request(id: u32, operation: &str, arguments: &[u8]) -> Vec<u8> {
    let mut octets = b"GIOP\x01\x02\x01\x00\0\0\0\0".to_vec();
    let number = |octets: &mut Vec<u8>, number: u32| {
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets.extend(number.to_le_bytes());
    };
    number(&mut octets, id);
    octets.extend([3, 0, 0, 0, 0, 0]);
    number(&mut octets, u32::try_from(KEY.len()).unwrap());
    octets.extend(KEY.as_bytes());
    number(&mut octets, u32::try_from(operation.len() + 1).unwrap());
    octets.extend(operation.as_bytes());
    octets.push(0);
    number(&mut octets, 0);
    if !arguments.is_empty() {
        octets.resize(octets.len().next_multiple_of(8), 0);
        octets.extend(arguments);
    }
    let size = u32::try_from(octets.len() - 12).unwrap();
    octets[8..12].copy_from_slice(&size.to_le_bytes());
    octets
}

/// Calls with recorded arguments. Returns the status of the reply, and its body.
fn call(stream: &mut TcpStream, id: u32, operation: &str, arguments: &[u8]) -> (u32, Vec<u8>) {
    stream.write_all(&request(id, operation, arguments)).unwrap();
    let mut header = [0; 12];
    stream.read_exact(&mut header).unwrap();
    assert_eq!((&header[..4], header[6] & 1, header[7]), (&b"GIOP"[..], 1, 1), "a little-endian reply");
    let mut rest = vec![0; u32::from_le_bytes(header[8..].try_into().unwrap()) as usize];
    stream.read_exact(&mut rest).unwrap();
    let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
    assert_eq!((number(0), number(8)), (id, 0), "its number, and no contexts");
    (number(4), rest.split_off(12))
}

fn decode<T>(octets: &[u8], read: impl FnOnce(&mut Decoder<'_>) -> T) -> T {
    let mut octets = octets.to_vec();
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    read(&mut Decoder::new(&mut octets, Order::Little, Text::DEFAULT, &scope))
}

type Computed = (Vec<RT_Info>, Vec<Dependency_Info>, Vec<Config_Info>, Vec<Scheduling_Anomaly>);

/// The results of compute_scheduling in TAO 2.x.
fn computed(octets: &[u8]) -> Computed {
    use isorb::generated::Idl;
    decode(octets, |d| {
        let infos: &[<RT_Info as Idl>::View<'_>] = Decode::decode(d).unwrap();
        let dependencies: &[Dependency_Info] = Decode::decode(d).unwrap();
        let configs: &[<Config_Info as Idl>::View<'_>] = Decode::decode(d).unwrap();
        let anomalies: &[<Scheduling_Anomaly as Idl>::View<'_>] = Decode::decode(d).unwrap();
        (
            infos.iter().map(|info| RT_Info::from_view(*info)).collect(),
            dependencies.to_vec(),
            configs.iter().map(|config| Config_Info::from_view(*config)).collect(),
            anomalies.iter().map(|anomaly| Scheduling_Anomaly::from_view(*anomaly)).collect(),
        )
    })
}

/// What the client registered, without what the service computes, and without what TAO leaves
/// uninitialised.
fn registered(info: &RT_Info) -> RT_Info {
    let dependency = |one: &Dependency_Info| Dependency_Info { rt_info_depended_on: 0, enabled: 0, ..*one };
    RT_Info {
        dependencies: info.dependencies.iter().map(dependency).collect(),
        priority: 0,
        preemption_subpriority: 0,
        preemption_priority: 0,
        enabled: 0,
        volatile_token: 0,
        ..info.clone()
    }
}

#[test]
fn sched_conf_of_tao_registers_its_operations_and_reads_a_schedule() {
    let (_orb, scheduler, _, port) = service();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let recorded = include_str!("tao/sched_conf.txt").lines().filter(|line| !line.starts_with('#'));
    let mut last = None;
    for (id, line) in recorded.enumerate() {
        let [operation, arguments, status, results]: [&str; 4] =
            line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(status, "ok");
        let reply = call(&mut stream, u32::try_from(id).unwrap(), operation, &hex(arguments));
        assert_eq!(reply.0, 0, "{operation}: {:?}", String::from_utf8_lossy(&reply.1));
        match operation {
            "compute_scheduling" => last = Some((hex(results), reply.1)),
            _ => assert_eq!(reply.1, hex(results), "{operation}"),
        }
    }
    let (theirs, ours) = last.unwrap();
    let (their_infos, _, their_configs, _) = computed(&theirs);
    let (infos, dependencies, configs, anomalies) = computed(&ours);
    let only = |infos: &[RT_Info]| infos.iter().map(registered).collect::<Vec<_>>();
    assert_eq!(only(&infos), only(&their_infos));
    assert_eq!(infos.len(), 16);
    assert!(infos.iter().all(|info| info.enabled == 1));
    // The consumers, each twice a run of its supplier. TAO's service returns none.
    let pairs: Vec<_> = dependencies.iter().map(|of| (of.rt_info, of.rt_info_depended_on)).collect();
    assert_eq!(pairs, [(9, 1), (10, 2), (11, 3), (12, 4), (13, 5), (14, 6), (15, 7), (16, 8)]);
    assert!(dependencies.iter().all(|of| (of.number_of_calls, of.enabled) == (2, 1)));
    // A level for each period, where TAO's service has one for all.
    assert_eq!(their_configs.len(), 1);
    let levels: Vec<_> = configs.iter().map(|of| (of.preemption_priority, of.thread_priority)).collect();
    assert_eq!(levels, [(0, 99), (1, 98), (2, 97), (3, 96)]);
    let periods: Vec<_> = configs.iter().map(|of| of.timer_periods.clone()).collect();
    assert_eq!(periods, [[500_000], [1_000_000], [2_000_000], [10_000_000]]);
    // The consumers have no cost.
    assert_eq!(anomalies.len(), 8);
    assert_eq!(anomalies[0].severity, Anomaly_Severity::AnomalyWarning);
    assert_eq!(anomalies[0].description, "high_20_C: its worst-case cost is zero, and counts as 100 ns");
    assert_eq!(scheduler.entry_point_priority("low_01_C").unwrap(), (96, 1, 3));
}

#[test]
fn every_operation_of_tao_2_is_served() {
    let (_orb, _, _, port) = service();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let recorded = include_str!("tao/all.txt").lines().filter(|line| !line.starts_with('#'));
    let mut ours = Vec::new();
    for (id, line) in recorded.enumerate() {
        let mut fields = line.split(' ');
        let (operation, arguments) = (fields.next().unwrap(), hex(fields.next().unwrap()));
        let (status, body) = call(&mut stream, u32::try_from(id).unwrap(), operation, &arguments);
        let text = String::from_utf8_lossy(&body);
        assert!(status < 2, "{operation} {id}: {text}");
        let raised = text.split("RtecScheduler/").nth(1).map(|id| id.split(':').next().unwrap().to_owned());
        ours.push((operation, raised.filter(|_| status == 1)));
    }
    let raised: Vec<_> =
        ours.iter().filter_map(|(operation, raised)| Some((*operation, raised.as_deref()?))).collect();
    assert_eq!(
        raised,
        [
            ("last_scheduled_priority", "NOT_SCHEDULED"),
            ("create", "DUPLICATE_NAME"),
            ("lookup", "UNKNOWN_TASK"),
            ("set", "UNKNOWN_TASK"),
            ("add_dependency", "UNKNOWN_TASK"),
            ("priority", "NOT_SCHEDULED"),
            // The operations that the client registers are in no schedule: nothing releases `b`.
            ("priority", "NOT_SCHEDULED"),
            ("entry_point_priority", "NOT_SCHEDULED"),
            ("entry_point_priority", "UNKNOWN_TASK"),
            ("dispatch_configuration", "NOT_SCHEDULED"),
            ("dispatch_configuration", "NOT_SCHEDULED"),
            ("last_scheduled_priority", "NOT_SCHEDULED"),
            ("get_config_infos", "NOT_SCHEDULED"),
            // Its dependency went when its operation was reset.
            ("remove_dependency", "UNKNOWN_TASK"),
        ],
        "{ours:?}"
    );
}

fn set<E>(result: Result<(), E>) -> Result<(), E> {
    result
}

fn declare(scheduler: &SchedulerRef, name: &str, cost: u64, period: i32) -> i32 {
    let handle = scheduler.create(name).unwrap();
    let (criticality, importance) = (Criticality_t::MediumCriticality, Importance_t::MediumImportance);
    let kind = isorb_sched_service::rtec_scheduler::Info_Type_t::Operation;
    set(scheduler.set(handle, criticality, cost, cost, 0, period, importance, 0, 0, kind)).unwrap();
    handle
}

#[test]
fn what_is_disabled_is_in_no_schedule() {
    let (_orb, scheduler, _, _) = service();
    let fast = declare(&scheduler, "fast", 8 * MS, 100_000);
    let slow = declare(&scheduler, "slow", 8 * MS, 200_000);
    let rest = declare(&scheduler, "rest", 2 * MS, 0);
    scheduler.add_dependency(rest, fast, 1, Dependency_Type_t::OneWayCall).unwrap();
    scheduler.add_dependency(rest, slow, 1, Dependency_Type_t::OneWayCall).unwrap();
    let fatal = |anomalies: &[Scheduling_Anomaly]| {
        anomalies.iter().any(|anomaly| anomaly.severity == Anomaly_Severity::AnomalyFatal)
    };
    assert!(fatal(&scheduler.recompute_scheduling(1, 99).unwrap()), "120 % and more");
    assert!(scheduler.get_config_info_set().unwrap().is_empty());
    assert!(matches!(scheduler.get_config_infos(), Err(GetConfigInfosError::NOT_SCHEDULED(_))));

    // Without the slow one the others fit. What depends on it is left with the other dependency.
    scheduler.set_rt_info_enable_state(slow, RT_Info_Enabled_Type_t::RtInfoDisabled).unwrap();
    assert!(!fatal(&scheduler.recompute_scheduling(1, 99).unwrap()));
    assert!(scheduler.priority(slow).is_err() && scheduler.priority(rest).is_ok());
    let states = |scheduler: &SchedulerRef| {
        scheduler.get_rt_info_set().unwrap().iter().map(|info| info.enabled).collect::<Vec<_>>()
    };
    assert_eq!(states(&scheduler), [1, 0, 1]);
    assert_eq!(scheduler.get_config_infos().unwrap()[0].timer_periods, [100_000]);

    // Nothing releases the rest without its dependency.
    let pairs = |enabled| vec![RT_Info_Enable_State_Pair { handle: slow, enabled }];
    let one_way = Dependency_Type_t::OneWayCall;
    let disabled = Dependency_Enabled_Type_t::DependencyDisabled;
    scheduler.set_dependency_enable_state(rest, fast, 1, one_way, disabled).unwrap();
    let anomalies = scheduler.recompute_scheduling(1, 99).unwrap();
    assert_eq!(anomalies[0].description, "rest: its period is zero, and no operation releases or calls it");
    let all = scheduler.get_dependency_set().unwrap();
    assert_eq!(
        all.iter().map(|of| (of.rt_info_depended_on, of.enabled)).collect::<Vec<_>>(),
        [(fast, 0), (slow, 1)]
    );
    assert_eq!(scheduler.get(rest).unwrap().dependencies.len(), 1, "those that are enabled");

    // Both back by the operations for several.
    let back: Vec<_> = all.iter().map(|of| Dependency_Info { enabled: 2, ..*of }).collect();
    scheduler.set_dependency_enable_state_seq(&back).unwrap();
    scheduler.set_rt_info_enable_state_seq(&pairs(RT_Info_Enabled_Type_t::RtInfoNonVolatile)).unwrap();
    assert_eq!(states(&scheduler), [1, 2, 1]);
    assert_eq!(scheduler.get_dependency_set().unwrap(), back);
    assert!(fatal(&scheduler.recompute_scheduling(1, 99).unwrap()));

    // What does not exist is refused, and nothing has changed.
    let unknown = scheduler.set_rt_info_enable_state(9, RT_Info_Enabled_Type_t::RtInfoEnabled);
    assert!(matches!(unknown, Err(SetRtInfoEnableStateError::UNKNOWN_TASK(_))));
    let other = scheduler.set_dependency_enable_state(rest, fast, 7, one_way, disabled);
    assert!(matches!(other, Err(SetDependencyEnableStateError::UNKNOWN_TASK(_))));
    let mut half = back.clone();
    (half[0].enabled, half[1].rt_info) = (0, 99);
    assert!(scheduler.set_dependency_enable_state_seq(&half).is_err());
    half = back.clone();
    half[1].enabled = 3;
    assert!(scheduler.set_dependency_enable_state_seq(&half).is_err());
    assert_eq!(scheduler.get_dependency_set().unwrap(), back);
}

#[test]
fn several_operations_change_together_or_not_at_all() {
    let (_orb, scheduler, _, _) = service();
    let one = declare(&scheduler, "one", MS, 100_000);
    let two = declare(&scheduler, "two", MS, 0);
    scheduler.add_dependency(two, one, 1, Dependency_Type_t::OneWayCall).unwrap();
    let infos = scheduler.get_rt_info_set().unwrap();
    let slower = |info: &RT_Info| RT_Info { worst_case_execution_time: 5 * MS, ..info.clone() };
    let costs = |scheduler: &SchedulerRef| {
        let infos = scheduler.get_rt_info_set().unwrap();
        infos
            .iter()
            .map(|info| (info.worst_case_execution_time / MS, info.dependencies.len()))
            .collect::<Vec<_>>()
    };
    let unknown = RT_Info { handle: 77, ..infos[1].clone() };
    let refused = scheduler.set_seq(&vec![slower(&infos[0]), unknown]);
    assert!(matches!(refused, Err(SetSeqError::UNKNOWN_TASK(_))));
    let negative = RT_Info { period: -1, ..infos[1].clone() };
    assert!(matches!(scheduler.set_seq(&vec![slower(&infos[0]), negative]), Err(SetSeqError::System(_))));
    assert_eq!(costs(&scheduler), [(1, 0), (1, 1)]);
    scheduler.set_seq(&infos.iter().map(slower).collect::<Vec<_>>()).unwrap();
    assert_eq!(costs(&scheduler), [(5, 0), (5, 1)]);
    scheduler.reset_seq(&infos).unwrap();
    assert_eq!(costs(&scheduler), [(1, 0), (1, 0)]);
    scheduler.replace_seq(&vec![slower(&infos[1])]).unwrap();
    assert_eq!(costs(&scheduler), [(0, 0), (5, 0)]);
    assert_eq!(scheduler.get(one).unwrap().period, 0, "as just created");
}

#[test]
fn one_service_answers_clients_of_both_versions() {
    let (_orb, newer, older, _) = service();
    let one = declare(&newer, "one", MS, 100_000);
    assert_eq!(older.lookup("one").unwrap(), one);
    assert_eq!(older.lookup("none").unwrap(), 0);
    assert_eq!(older.create("two").unwrap(), one + 1);
    older.add_dependency(one + 1, one, 1, Dependency_Type_t::OneWayCall).unwrap();
    let (infos, configs, anomalies) = older.compute_scheduling(1, 9).unwrap();
    assert_eq!((infos[1].dependencies[0].rt_info, infos[1].priority), (one, 9));
    assert_eq!((configs.len(), configs[0].thread_priority), (1, 9));
    assert_eq!(anomalies.len(), 1, "an operation without a cost");
    let read = older.get(one).unwrap();
    assert_eq!((&*read.entry_point, read.worst_case_execution_time, read.priority), ("one", MS, 9));
    assert_eq!(newer.priority(one).unwrap(), older.priority(one).unwrap());
    assert_eq!(older.object().type_id(), newer.object().type_id());
    assert_eq!(older.object().type_id(), "IDL:RtecScheduler/Scheduler:1.0");
}
