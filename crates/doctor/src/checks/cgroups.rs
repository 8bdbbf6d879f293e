//! What the control group of the process takes away.

use crate::finding::{Finding, Level};
use crate::root::Root;

/// Real-time processor time of the group (`cpu.rt_runtime_us`, control groups of version 1 in
/// kernels with `RT_GROUP_SCHED`): zero refuses every real-time thread whatever its rights.
pub fn real_time_budget(root: &Root) -> Finding {
    const CHECK: &str = "group-real-time-budget";
    let files: Vec<(String, i64)> = group_folders(root)
        .into_iter()
        .filter_map(|folder| {
            let file = format!("{folder}/cpu.rt_runtime_us");
            Some((file.clone(), root.number(&file)?))
        })
        .collect();
    match files.iter().find(|(_, budget)| *budget == 0) {
        Some(_) => {
            let finding = Finding::new(
                CHECK,
                Level::Blocking,
                "the control group has no real-time budget (cpu.rt_runtime_us is 0)",
                "The kernel refuses SCHED_FIFO and SCHED_RR to every thread of the group, capability or not.",
            );
            // From the outermost group inwards: an inner one cannot have more than the outer.
            files
                .iter()
                .rev()
                .filter(|(_, budget)| *budget == 0)
                .fold(finding, |finding, (file, _)| finding.fix(format!("echo 900000 > {file}")))
        }
        None => Finding::good(CHECK, "no control group limits real-time scheduling"),
    }
}

/// A quota of processor time (`cpu.max`, `cpu.cfs_quota_us`).
pub fn processor_limit(root: &Root) -> Finding {
    const CHECK: &str = "group-processor-limit";
    let limited = group_folders(root).into_iter().find_map(|folder| {
        let of_v2 =
            root.line(&format!("{folder}/cpu.max")).filter(|max| !max.starts_with("max") && !max.is_empty());
        if let Some(max) = of_v2 {
            return Some((format!("{folder}/cpu.max is {max}"), format!("echo max > {folder}/cpu.max")));
        }
        let quota = root.number(&format!("{folder}/cpu.cfs_quota_us")).filter(|&quota| quota > 0)?;
        let file = format!("{folder}/cpu.cfs_quota_us");
        Some((format!("{file} is {quota}"), format!("echo -1 > {file}")))
    });
    match limited {
        Some((found, command)) => Finding::new(
            CHECK,
            Level::Warning,
            found,
            "Ordinary threads of the group (logging, naming, administration) stand still when the quota is used up, \
             locks in their hands included.",
        )
        .fix(command)
        .fix("systemd unit, section [Service]: CPUQuota=")
        .fix("container: run it without --cpus and --cpu-quota"),
        None => Finding::good(CHECK, "no control group limits processor time"),
    }
}

/// The folders of the process's groups that may have files of the controller `cpu`, the innermost
/// first, up to the root.
fn group_folders(root: &Root) -> Vec<String> {
    let mut folders = Vec::new();
    // hierarchy:controllers:path, controllers empty for version 2.
    for line in root.text("/proc/self/cgroup").unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mounts: Vec<String> = if controllers.is_empty() {
            ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(str::to_owned).to_vec()
        } else if controllers.split(',').any(|name| name == "cpu") {
            [controllers, "cpu"].map(|name| format!("/sys/fs/cgroup/{name}")).to_vec()
        } else {
            continue;
        };
        for mount in mounts {
            let mut path = path.trim_end_matches('/');
            loop {
                let folder = format!("{mount}{path}");
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
                match path.rfind('/') {
                    Some(end) => path = &path[..end],
                    None => break,
                }
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::tree;

    const V1: (&str, &str) = ("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/docker/ab\n0::/\n");
    const V2: (&str, &str) = ("/proc/self/cgroup", "0::/system.slice/isorb.service\n");

    #[test]
    fn no_budget_blocks_and_is_given_from_the_outside_in() {
        let tree = tree(&[
            V1,
            ("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.rt_runtime_us", "0\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.rt_runtime_us", "0\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us", "950000\n"),
        ]);
        let finding = real_time_budget(&tree.root);
        assert_eq!(finding.level, Level::Blocking);
        assert_eq!(
            finding.fix,
            [
                "echo 900000 > /sys/fs/cgroup/cpu,cpuacct/docker/cpu.rt_runtime_us",
                "echo 900000 > /sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.rt_runtime_us",
            ]
        );
        assert_eq!(processor_limit(&tree.root).level, Level::Good);
    }

    #[test]
    fn a_quota_anywhere_up_the_path_counts() {
        let service = "/sys/fs/cgroup/system.slice/isorb.service/cpu.max";
        let slice = ("/sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n");
        let limited = tree(&[V2, (service, "max 100000\n"), slice]);
        let finding = processor_limit(&limited.root);
        assert_eq!(
            (finding.level, finding.fix[0].as_str()),
            (Level::Warning, "echo max > /sys/fs/cgroup/system.slice/cpu.max")
        );
        assert_eq!(real_time_budget(&limited.root).level, Level::Good);

        let unlimited = tree(&[V2, (service, "max 100000\n")]);
        assert_eq!(processor_limit(&unlimited.root).level, Level::Good);
        let v1 = tree(&[V1, ("/sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us", "20000\n")]);
        assert_eq!(processor_limit(&v1.root).level, Level::Warning);
        let v1 = tree(&[V1, ("/sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us", "-1\n")]);
        assert_eq!(processor_limit(&v1.root).level, Level::Good);
    }

    #[test]
    fn the_way_up_ends_at_the_mount() {
        let tree = tree(&[("/proc/self/cgroup", "1:cpu:/a/b\nnonsense\n2:memory:/c\n")]);
        assert_eq!(
            group_folders(&tree.root),
            ["/sys/fs/cgroup/cpu/a/b", "/sys/fs/cgroup/cpu/a", "/sys/fs/cgroup/cpu"]
        );
    }
}
