//! Skipped tests: they are reported visibly, and not permitted if the requirement is installed.
//!
//! | variable | meaning |
//! |---|---|
//! | `UNRACK_SKIPS` | file to which each skip appends a line; if it is not set, skips are written to stderr |
//! | `UNRACK_NO_SKIPS` | comma-separated names of requirements that are installed here; a test that does not find one of them fails |
//!
//! Tests in Python and shell do the same (`python/tests/skips.py`, `tests/programs/lib.sh`).

use std::fmt::Display;
use std::io::Write;

/// Requirement of some tests that a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestRequirement {
    /// A browser.
    Chromium,
    /// A second core.
    Cores,
    /// A processor with instructions that write back and invalidate cache lines.
    Flush,
    /// The waveform converter that is part of GTKWave.
    Fst2vcd,
    /// The version control system, with which tests make commits.
    Git,
    /// Virtual machines: QEMU's `qemu-system-x86_64`, a kernel with its modules, `busybox`.
    Guests,
    /// Pages of 2 MiB that the kernel has reserved (`vm.nr_hugepages`).
    HugePages,
    /// The program `ip`, which creates and connects network namespaces.
    Iproute2,
    /// The compiler for the musl C library (`musl-gcc`).
    Musl,
    /// Root, and a kernel with network namespaces, TAP devices and multipath TCP.
    Namespaces,
    Python3,
    /// QEMU's user mode for x86-64 (`qemu-x86_64`).
    Qemu,
    /// The libraries of the compiler's sanitizers.
    Sanitizers,
    /// Root rights, to act as other users or to mount a file system.
    Root,
    /// Simulations of the hardware, which `make rtl-short` builds.
    Rtl,
    /// The stores of the YCSB programs: `redis-server` and `memcached`.
    Stores,
    /// The command-line program of Wireshark.
    Tshark,
    /// A kernel with the `userfaultfd` features that the pager needs, and permission to use them.
    Userfaultfd,
    /// The cache simulator (`valgrind --tool=cachegrind`).
    Valgrind,
    /// Root rights, and a kernel with zram and memory cgroups.
    Zram,
}

impl TestRequirement {
    /// All requirements.
    pub const ALL: [TestRequirement; 20] = [
        TestRequirement::Chromium,
        TestRequirement::Cores,
        TestRequirement::Flush,
        TestRequirement::Fst2vcd,
        TestRequirement::Git,
        TestRequirement::Guests,
        TestRequirement::HugePages,
        TestRequirement::Iproute2,
        TestRequirement::Musl,
        TestRequirement::Namespaces,
        TestRequirement::Python3,
        TestRequirement::Qemu,
        TestRequirement::Root,
        TestRequirement::Rtl,
        TestRequirement::Sanitizers,
        TestRequirement::Stores,
        TestRequirement::Tshark,
        TestRequirement::Userfaultfd,
        TestRequirement::Valgrind,
        TestRequirement::Zram,
    ];

    /// Returns the name that `UNRACK_NO_SKIPS` and reports use.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Reports that the running test is skipped, and why. The test must return afterwards.
///
/// # Panics
/// If `UNRACK_NO_SKIPS` contains the requirement. The test then fails instead of being skipped.
pub fn skip(needed: TestRequirement, why: impl Display) {
    let here = std::thread::current();
    let line = line(needed, here.name().unwrap_or("a thread"), &why.to_string());
    let installed = std::env::var("UNRACK_NO_SKIPS").unwrap_or_default();
    assert!(!names(&installed, needed), "{line}; but UNRACK_NO_SKIPS says that it is installed");
    match std::env::var_os("UNRACK_SKIPS") {
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            // Written with a single write per skip, because several test programs append to the file at the same time.
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file of UNRACK_SKIPS");
        }
        // `eprintln` is not used, because its output is captured while a test runs.
        None => _ = std::io::stderr().write_all(format!("skipped: {line}").as_bytes()),
    }
}

/// Returns the line of a report: the requirement, the test, and the reason why the test cannot run.
fn line(needed: TestRequirement, test: &str, why: &str) -> String {
    let why: Vec<&str> = why.split_whitespace().collect();
    format!("{}: {test}: {}\n", needed.name(), why.join(" "))
}

fn names(installed: &str, needed: TestRequirement) -> bool {
    let mut installed = installed.split(',').map(str::trim).filter(|name| !name.is_empty());
    let known = |name: &str| TestRequirement::ALL.iter().any(|needed| needed.name() == name);
    installed.clone().for_each(|name| assert!(known(name), "UNRACK_NO_SKIPS: nothing is called `{name}`"));
    installed.any(|name| name == needed.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_what_must_be_there() {
        assert!(names("chromium, python3", TestRequirement::Python3));
        assert!(!names("chromium,python3", TestRequirement::Userfaultfd) && !names("", TestRequirement::Rtl));
    }

    #[test]
    #[should_panic(expected = "nothing is called `pyhton3`")]
    fn a_misspelt_name_fails() {
        names("pyhton3", TestRequirement::Rtl);
    }
}
