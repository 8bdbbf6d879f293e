//! Admission compared with the analysis of the whole set at each step.

use isorb_sched::{
    Admission, AdmissionConfig, Assignment, Nanos, Preemption, Reason, Task, TaskId, Utilisation,
    fixed_priority,
};
use proptest::prelude::*;

fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

/// The admitted tasks with the priorities that admission gave them.
fn ranked(admission: &Admission) -> Vec<(TaskId, Task, Nanos)> {
    let admitted: Vec<_> =
        admission.iter().map(|(id, task, response)| (id, task.clone(), response)).collect();
    admitted
        .into_iter()
        .map(|(id, task, response)| {
            let level = u32::MAX - u32::try_from(task.deadline.minus(task.jitter).ns()).unwrap();
            (id, task.priority(level), response)
        })
        .collect()
}

/// Admission and the analysis of the whole set agree.
fn agree(admission: &Admission, preemption: Preemption) {
    let (ids, (tasks, known)): (Vec<_>, (Vec<_>, Vec<_>)) =
        ranked(admission).into_iter().map(|(id, task, response)| (id, (task, response))).unzip();
    let analysis = fixed_priority(&tasks, preemption).unwrap();
    assert!(analysis.schedulable());
    let computed: Vec<Nanos> = analysis.verdicts.iter().map(|v| v.response.bound().unwrap()).collect();
    assert_eq!(computed, known);
    for (id, (task, response)) in ids.into_iter().zip(tasks.iter().zip(known)) {
        assert_eq!(admission.response(id), Some(response));
        assert_eq!(admission.promotion(id), Some(task.deadline.minus(response)));
    }
}

fn request() -> impl Strategy<Value = Task> {
    (1_u64..20, 20_u64..400, 0_u64..3, 0_u64..30, 1_u64..20).prop_map(
        |(cost, period, shape, jitter, section)| {
            let task = Task::new("wish", Nanos::new(cost), Nanos::new(period))
                .section(Nanos::new(section.min(cost)));
            match shape {
                0 => task,
                1 => task.deadline(Nanos::new((period / 2).max(cost))),
                _ => task.deadline(Nanos::new(period + jitter + cost)).jitter(Nanos::new(jitter)),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn as_the_analysis_of_all_tasks(
        wishes in prop::collection::vec((request(), any::<u8>()), 1..30),
        preemption in prop_oneof![Just(Preemption::Full), Just(Preemption::Deferred), Just(Preemption::None)],
    ) {
        let mut admission = Admission::new(AdmissionConfig { preemption, ..AdmissionConfig::default() });
        let mut ids = Vec::new();
        for (task, choice) in wishes {
            if choice % 4 == 0 && !ids.is_empty() {
                let id = ids.remove(usize::from(choice) % ids.len());
                prop_assert!(admission.remove(id).is_some());
                prop_assert!(admission.remove(id).is_none());
                prop_assert!(admission.response(id).is_none());
            }
            let before = ranked(&admission);
            match admission.try_admit(task.clone()) {
                Ok(admitted) => {
                    prop_assert_eq!(admission.response(admitted.id), Some(admitted.response));
                    ids.push(admitted.id);
                }
                Err(refusal) => {
                    // Nothing changed, the whole set would fail, and the alternative in the refusal
                    // is admitted.
                    prop_assert_eq!(&before, &ranked(&admission));
                    let mut all_tasks: Vec<Task> = before.iter().map(|(_, task, _)| task.clone()).collect();
                    let level = u32::MAX - u32::try_from(task.deadline.minus(task.jitter).ns()).unwrap();
                    all_tasks.push(task.clone().priority(level));
                    prop_assert!(!fixed_priority(&all_tasks, preemption).unwrap().schedulable(), "{}", refusal);
                    if let Some(period) = refusal.nearest.period {
                        let deadline = if task.deadline == task.period { period } else { task.deadline };
                        let offered = Task { period, deadline, ..task.clone() };
                        prop_assert!(admission.would_admit(&offered).is_ok(), "{}", refusal);
                    }
                    if let Some(deadline) = refusal.nearest.deadline {
                        prop_assert!(admission.would_admit(&task.clone().deadline(deadline)).is_ok(), "{}", refusal);
                    }
                    prop_assert_eq!(&before, &ranked(&admission));
                }
            }
            agree(&admission, preemption);
        }
    }
}

#[test]
fn refusals_name_the_late_task_and_its_response() {
    let refused = |admission: &mut Admission, task: Task| admission.try_admit(task).unwrap_err().to_string();
    let mut admission = Admission::new(AdmissionConfig {
        capacity: 2,
        share: Utilisation::from_fraction(0.7),
        ..AdmissionConfig::default()
    });
    assert_eq!(
        refused(&mut admission, Task::new("zero", ms(1), ms(0))),
        "zero cannot be admitted: its period is zero"
    );
    admission.try_admit(Task::new("radar", ms(4), ms(10))).unwrap();
    assert_eq!(
        refused(&mut admission, Task::new("video", ms(4), ms(10))),
        "video cannot be admitted: it asks for 40.0 % of the resource, of which 40.0 % is given away and 70.0 % may be; \
         a period of 13.359 ms would be admitted"
    );
    let mut tight = Admission::new(AdmissionConfig { capacity: 2, ..AdmissionConfig::default() });
    tight.try_admit(Task::new("radar", ms(4), ms(10))).unwrap();
    assert_eq!(
        refused(&mut tight, Task::new("alarm", ms(1), ms(100)).deadline(ms(2)).blocking(ms(5))),
        "alarm cannot be admitted: it would take at least 6 ms, over its deadline of 2 ms; \
         a deadline of 6.004 ms would be admitted"
    );
    tight.try_admit(Task::new("log", ms(1), ms(100))).unwrap();
    assert_eq!(
        refused(&mut tight, Task::new("more", ms(1), ms(100))),
        "more cannot be admitted: 2 tasks are admitted, and no more may be"
    );
}

#[test]
fn a_link_waits_for_the_packet_on_the_wire() {
    let config = AdmissionConfig { preemption: Preemption::None, ..AdmissionConfig::default() };
    let mut link = Admission::new(config);
    let small = link.try_admit(Task::new("small", ms(1), ms(10)).deadline(ms(3))).unwrap();
    assert_eq!(small.response, ms(1));
    let refusal = link.try_admit(Task::new("bulk", ms(5), ms(100))).unwrap_err();
    assert!(matches!(&refusal.reason, Reason::Deadline { victim, .. } if victim == "small"), "{refusal}");
    // No period helps the bulk message: it is too long.
    assert_eq!((refusal.nearest.period, refusal.nearest.deadline), (None, None));
    link.try_admit(Task::new("bulk", ms(2), ms(100))).unwrap();
    assert_eq!(link.response(small.id), Some(ms(3).minus(Nanos::new(1))));
}

#[test]
fn declared_priorities_and_stale_names() {
    let mut admission =
        Admission::new(AdmissionConfig { assignment: Assignment::Declared, ..AdmissionConfig::default() });
    let slow = admission.try_admit(Task::new("slow", ms(10), ms(100)).priority(9)).unwrap();
    let refusal = admission.try_admit(Task::new("fast", ms(1), ms(8)).priority(3)).unwrap_err();
    assert!(matches!(&refusal.reason, Reason::Deadline { victim, .. } if victim == "fast"), "{refusal}");
    let fast = admission.try_admit(Task::new("fast", ms(1), ms(8)).priority(10)).unwrap();
    assert_eq!(admission.response(slow.id), Some(ms(12)));
    assert_eq!(admission.remove(slow.id).unwrap().name, "slow");
    let other = admission.try_admit(Task::new("other", ms(1), ms(50))).unwrap();
    assert_eq!(admission.task(slow.id), None);
    assert_eq!(admission.task(other.id).unwrap().name, "other");
    assert_eq!(admission.iter().map(|(_, task, _)| &*task.name).collect::<Vec<_>>(), ["fast", "other"]);
    assert_eq!(admission.response(fast.id), Some(ms(1)));
}
