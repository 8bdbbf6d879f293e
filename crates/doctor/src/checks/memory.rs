//! What moves pages about.

use crate::finding::{Finding, Level};
use crate::root::Root;

/// Memory that can go to a disk.
pub fn swap(root: &Root) -> Finding {
    const CHECK: &str = "swap";
    let text = root.text("/proc/swaps").unwrap_or_default();
    // A heading, then a line for each.
    let devices: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    if devices.is_empty() {
        return Finding::good(CHECK, "none");
    }
    Finding::new(
        CHECK,
        Level::Warning,
        format!("on {}", devices.join(", ")),
        "A process that does not lock its memory, or a server that it calls, waits for a disk.",
    )
    .fix("swapoff -a")
    .fix("for good: comment the swap lines of /etc/fstab out")
}

/// Pages that the kernel joins to large ones.
pub fn huge_pages(root: &Root) -> Finding {
    const CHECK: &str = "huge-pages";
    let mode = root.line("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if mode.contains("[always]") {
        return Finding::new(
            CHECK,
            Level::Warning,
            "transparent huge pages are always on",
            "The kernel collects and joins pages of running programs, and a thread that touches one meanwhile waits.",
        )
        .fix("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
        .fix("at boot: transparent_hugepage=madvise");
    }
    Finding::good(CHECK, "only where a program asks for them")
}

/// Equal pages that the kernel merges.
pub fn page_merging(root: &Root) -> Finding {
    const CHECK: &str = "page-merging";
    if root.number("/sys/kernel/mm/ksm/run") == Some(1) {
        return Finding::new(
            CHECK,
            Level::Warning,
            "the kernel merges equal pages",
            "Writing to a merged page faults, even where it is locked.",
        )
        .fix("echo 2 > /sys/kernel/mm/ksm/run");
    }
    Finding::good(CHECK, "off")
}

/// Pages that follow a thread to its memory node.
pub fn page_migration(root: &Root) -> Finding {
    const CHECK: &str = "page-migration";
    if root.number("/proc/sys/kernel/numa_balancing").is_some_and(|on| on != 0) {
        return Finding::new(
            CHECK,
            Level::Warning,
            "the kernel moves pages between memory nodes",
            "It unmaps pages to see which node uses them, so threads fault on locked memory.",
        )
        .fix("sysctl -w kernel.numa_balancing=0")
        .fix("for good: echo 'kernel.numa_balancing = 0' > /etc/sysctl.d/91-real-time.conf");
    }
    Finding::good(CHECK, "off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::tree;

    #[test]
    fn swap_is_named() {
        const HEADING: &str = "Filename\tType\tSize\tUsed\tPriority\n";
        assert_eq!(swap(&tree(&[("/proc/swaps", HEADING)]).root).level, Level::Good);
        let device = format!("{HEADING}/dev/sda2 partition 1 0 -2\n");
        assert_eq!(swap(&tree(&[("/proc/swaps", &device)]).root).found, "on /dev/sda2");
    }

    #[test]
    fn what_moves_pages_is_found() {
        let level = |check: fn(&Root) -> Finding, file, text| check(&tree(&[(file, text)]).root).level;
        let file = "/sys/kernel/mm/transparent_hugepage/enabled";
        assert_eq!(level(huge_pages, file, "[always] madvise never\n"), Level::Warning);
        assert_eq!(level(huge_pages, file, "always [madvise] never\n"), Level::Good);
        assert_eq!(level(page_merging, "/sys/kernel/mm/ksm/run", "1\n"), Level::Warning);
        assert_eq!(level(page_merging, "/sys/kernel/mm/ksm/run", "0\n"), Level::Good);
        assert_eq!(level(page_migration, "/proc/sys/kernel/numa_balancing", "1\n"), Level::Warning);
        assert_eq!(level(page_migration, "/proc/sys/kernel/numa_balancing", "0\n"), Level::Good);
    }
}
