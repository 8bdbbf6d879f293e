//! The checks. Each is a function from files to a finding, and judges one thing.

mod cgroups;
mod cores;
mod kernel;
mod memory;
mod power;
mod rights;

use crate::{Finding, Root, Wanted};

/// All checks, in the order in which an operator would fix their findings.
pub fn examine(root: &Root, wanted: Wanted) -> Vec<Finding> {
    let of_root: &[fn(&Root) -> Finding] = &[
        cgroups::real_time_budget,
        cgroups::processor_limit,
        kernel::throttling,
        kernel::fair_server,
        kernel::preemption,
        kernel::clock_source,
        kernel::timer_resolution,
        kernel::timer_slack,
        power::governor,
        power::idle_states,
        cores::usable,
        cores::siblings,
        cores::isolation,
        cores::interrupts,
        cores::virtual_machine,
        memory::swap,
        memory::huge_pages,
        memory::page_merging,
        memory::page_migration,
    ];
    let mut findings =
        vec![rights::scheduling(root, wanted), rights::locked_memory(root), rights::reservations(root)];
    findings.extend(of_root.iter().map(|check| check(root)));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::root::fake::tree;

    #[test]
    fn where_nothing_can_be_read_nothing_is_called_good_that_matters() {
        let findings = examine(&tree(&[]).root, Wanted::default());
        assert_eq!(findings.len(), 22);
        for finding in &findings {
            assert!(finding.level != Level::Blocking, "{finding:?}");
            assert!(finding.level == Level::Good || !finding.matters.is_empty(), "{finding:?}");
        }
        let unknown = |name| findings.iter().any(|f| f.check == name && f.level == Level::Unknown);
        for name in ["real-time-right", "locked-memory", "throttling", "preemption", "clock-source"] {
            assert!(unknown(name), "{name}");
        }
    }

    #[test]
    fn every_check_has_a_name_of_its_own() {
        let mut names: Vec<_> =
            examine(&Root::system(), Wanted::default()).into_iter().map(|f| f.check).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn what_is_wrong_comes_with_what_to_do() {
        for finding in examine(&Root::system(), Wanted::default()) {
            if finding.level >= Level::Warning {
                assert!(!finding.fix.is_empty() && !finding.matters.is_empty(), "{finding:?}");
            }
        }
    }
}
