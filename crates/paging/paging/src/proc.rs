//! Reads data about processes from `/proc`. A process that has ended has no data there.

use std::os::fd::AsFd;
use std::path::PathBuf;
use unrack_pager::unevictable::{line_can_be_remote, unevictable_pages};

/// Bytes of a page.
pub(crate) const PAGE: u64 = unrack_basis::PAGE as u64;

/// Returns the direct children of all threads of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("children")));
    lists.flatten().flat_map(|list| numbers(&list)).collect()
}

/// Returns all descendants of a process: its children, their children, and so on.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = children(pid);
    let mut next = 0;
    while next < found.len() {
        let more = children(found[next]);
        found.extend(more.into_iter().filter(|pid| *pid != 0));
        next += 1;
    }
    found
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Returns whether a process has ended: it no longer exists, or only its exit status is left.
pub(crate) fn has_ended(pid: u32) -> bool {
    match state(pid) {
        None | Some('X') => true,
        // The first thread may have ended while others continue; then the task folder lists those too.
        Some('Z') => std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) <= 1,
        Some(_) => false,
    }
}

/// Returns whether a thread has ended; other threads of its process may continue.
pub(crate) fn is_zombie(thread: u32) -> bool {
    matches!(state(thread), None | Some('Z' | 'X'))
}

fn state(pid: u32) -> Option<char> {
    state_in(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the field after the name. The name is in parentheses and may contain any character.
fn state_in(stat: &str) -> Option<char> {
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

/// Returns the start time of a process, in clock ticks since the machine started. Together with the process number it identifies a process
/// uniquely.
pub(crate) fn started(pid: u32) -> Option<u64> {
    started_in(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn started_in(stat: &str) -> Option<u64> {
    // Field 22; the name, field 2, may contain any character.
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns the numbers of all processes on the machine.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns whether the environment with which a process was started contains this variable and value (`NAME=value`). The environment is on
/// the program's stack, which is never made remote. Returns `None` if the process has no environment, perhaps because it is in the middle
/// of an `execve`.
pub(crate) fn has_variable(pid: u32, variable: &str) -> Option<bool> {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return Some(false) };
    let found = environment.split(|byte| *byte == 0).any(|known| known == variable.as_bytes());
    // Threads of the kernel and processes that have ended have no executable.
    let may_come = environment.is_empty() && executable(pid).is_some();
    (!may_come).then_some(found)
}

/// Returns the name of a process.
pub(crate) fn name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_string()).filter(|name| !name.is_empty())
}

/// Returns the path of a process's executable.
pub(crate) fn executable(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Returns whether a process maps a file whose path contains `text`; `None` if that cannot be determined.
pub(crate) fn maps_file(pid: u32, text: &str) -> Option<bool> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    (!maps.is_empty()).then(|| maps.contains(text))
}

/// Returns the parent of a process; `None` for a thread that is not the first of its process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    parent_in(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?, pid)
}

fn parent_in(status: &str, pid: u32) -> Option<u32> {
    let number = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    number("PPid:").filter(|_| number("Tgid:") == Some(pid))
}

/// Returns the threads of a process.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the thread that traces a process, if any.
pub(crate) fn tracer(pid: u32) -> Option<u32> {
    tracer_in(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn tracer_in(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|tracer| *tracer != 0)
}

/// Returns a thread that traces any thread of a process, if there is one.
pub(crate) fn tracer_of_any_thread(pid: u32) -> Option<u32> {
    threads(pid).into_iter().find_map(tracer)
}

/// Returns whether a thread has a system call filter (seccomp). Threads of one process can differ in this.
pub(crate) fn is_filtered(thread: u32) -> bool {
    status_word(thread, "Seccomp:").is_some_and(|mode| mode != "0")
}

/// Returns the number of system call filters of a thread, both inherited ones and those that the thread added.
pub(crate) fn filters(thread: u32) -> Option<u64> {
    status_word(thread, "Seccomp_filters:")?.parse().ok()
}

/// Returns whether the first thread of a process has ended while others continue. In that case `/proc` shows no memory for the process.
pub(crate) fn has_lost_its_first_thread(pid: u32) -> bool {
    state(pid) == Some('Z') && !has_ended(pid)
}

/// Returns whether a process is stopped by a signal.
pub(crate) fn is_stopped(pid: u32) -> bool {
    state(pid) == Some('T')
}

/// Returns whether any thread of a process has an open file whose name contains `text`. All threads are inspected, because each can have a
/// separate descriptor table.
pub(crate) fn has_open(pid: u32, text: &str) -> bool {
    let is_open_in = |thread: u32| {
        let files =
            std::fs::read_dir(format!("/proc/{pid}/task/{thread}/fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.any(|target| target.to_string_lossy().contains(text))
    };
    threads(pid).into_iter().any(is_open_in)
}

/// Returns the number of the process that a thread belongs to.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    status_word(thread, "Tgid:")?.parse().ok()
}

/// Returns whether a signal that is neither blocked nor ignored is pending for a thread.
pub(crate) fn has_signal(thread: u32) -> bool {
    let [own, shared, blocked] = ["SigPnd:", "ShdPnd:", "SigBlk:"].map(|name| signals(thread, name));
    let pending = (own | shared) & !blocked;
    (1..=64).any(|signal| pending & (1 << (signal - 1)) != 0 && !ignores(thread, signal))
}

/// Returns whether a process ignores this signal, explicitly or by default.
pub(crate) fn ignores(thread: u32, signal: i32) -> bool {
    const BY_DEFAULT: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];
    let is_in = |name| signals(thread, name) & (1 << (signal - 1)) != 0;
    is_in("SigIgn:") || BY_DEFAULT.contains(&signal) && !is_in("SigCgt:")
}

fn signals(thread: u32, name: &str) -> u64 {
    status_word(thread, name).and_then(|word| u64::from_str_radix(&word, 16).ok()).unwrap_or(0)
}

/// Returns the first word after `name` in the line of a thread's status file that begins with `name`.
pub(crate) fn status_word(thread: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next().map(str::to_string)
}

/// Returns the words of the command line with which a process was started.
pub(crate) fn words(pid: u32) -> Vec<String> {
    words_in(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
}

/// Splits a command line into words. Trailing zeros are dropped, because a process that overwrites its command line with a title, as
/// servers do, fills the rest with zeros.
fn words_in(line: &[u8]) -> Vec<String> {
    let len = line.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    line[..len]
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).trim_end().to_string())
        .collect()
}

/// Returns the resident bytes of private anonymous memory.
pub(crate) fn anonymous_bytes(pid: u32) -> Option<u64> {
    anonymous_in(&std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?)
}

fn anonymous_in(statm: &str) -> Option<u64> {
    let mut fields = statm.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (fields.nth(1)??, fields.next()??);
    Some(resident.saturating_sub(shared).saturating_mul(PAGE))
}

/// Returns the resident bytes of shared memory: `shm_open`, `mmap(MAP_SHARED | MAP_ANONYMOUS)`, System V, tmpfs.
pub(crate) fn shared_bytes(pid: u32) -> Option<u64> {
    shared_in(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn shared_in(status: &str) -> Option<u64> {
    kibibytes(status, "RssShmem:")
}

/// Private memory of a process in bytes, counted by the kernel's walk over the page tables. The walk takes milliseconds per GiB.
///
/// *Proportional* sizes count a page that n processes map as one nth for each, so that a sum over processes counts it once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PrivateMemory {
    /// Memory that can be remote.
    pub anonymous: u64,
    pub proportional_anonymous: u64,
    /// Private memory that cannot be remote, at most its proportional part.
    pub proportional_kept: u64,
}

/// Reads a process's private memory; `None` if this user may not read it.
pub(crate) fn private_memory(pid: u32) -> Option<PrivateMemory> {
    private_in(&std::fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?)
}

/// Sums over the mappings in `smaps` (proc_pid_smaps(5)). Each mapping has a line as in `maps`, followed by lines of fields.
fn private_in(smaps: &str) -> Option<PrivateMemory> {
    let mut sum = PrivateMemory::default();
    let (mut can_be_remote, mut proportional) = (None, 0);
    for line in smaps.lines() {
        if let Some(can) = line_can_be_remote(line.as_bytes()) {
            (can_be_remote, proportional) = (Some(can), 0);
        } else if let Some(bytes) = kibibytes(line, "Pss:") {
            proportional = bytes;
        } else if let Some(anonymous) = kibibytes(line, "Anonymous:") {
            // The rest of a file mapping belongs to the file.
            let own = proportional.min(anonymous);
            match can_be_remote? {
                true => {
                    sum.anonymous += anonymous;
                    sum.proportional_anonymous += own;
                }
                false => sum.proportional_kept += own,
            }
        }
    }
    can_be_remote.map(|_| sum)
}

/// Returns the private bytes of a process that cannot be remote; `None` if this user may not read them.
pub(crate) fn kept_bytes(pid: u32) -> Option<u64> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let pagemap = std::fs::File::open(format!("/proc/{pid}/pagemap")).ok()?;
    Some(unevictable_pages(&maps, pagemap.as_fd()).saturating_mul(PAGE))
}

/// Returns the proportional bytes of shared memory; `None` if this user may not read them.
pub(crate) fn proportional_shared_bytes(pid: u32) -> Option<u64> {
    kibibytes(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss_Shmem:")
}

/// Returns the number of bytes in the line that begins with `name`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_any_name() {
        assert_eq!(state_in("12 (a) b) Z 1 12"), Some('Z'));
        assert_eq!(state_in("12 (sh) S 1"), Some('S'));
        assert_eq!(state_in(""), None);
        let stat = "7 (a) 9) S 1 7 7 0 -1 64 1 2 3 4 5 6 7 8 20 0 1 0 4321 99";
        assert_eq!(started_in(stat), Some(4321));
        assert_eq!(started_in("7 (a) S 1"), None);
    }

    #[test]
    fn a_title_over_the_words_leaves_no_empty_ones() {
        assert_eq!(words_in(b"redis-server *:6391\0\0\0\0\0\0"), ["redis-server *:6391"]);
        assert_eq!(words_in(b"postgres: checkpointer       \0\0\0"), ["postgres: checkpointer"]);
        assert_eq!(words_in(b"grep\0\0-r\0"), ["grep", "", "-r"]);
    }

    #[test]
    fn memory_is_read_and_nonsense_is_not() {
        assert_eq!(anonymous_in("100 30 10 1 0 1 0\n"), Some(20 * PAGE));
        assert_eq!(anonymous_in("0 0 0 0 0 0 0"), Some(0));
        assert_eq!(anonymous_in("100 x 10"), None);
        assert_eq!(shared_in("Name:\tx\nRssShmem:\t      12 kB\n"), Some(12 << 10));
        assert_eq!(shared_in("Name:\tx\n"), None);
        assert_eq!(tracer_in("Name:\tx\nTracerPid:\t12\n"), Some(12));
        assert_eq!(parent_in("Tgid:\t7\nPid:\t8\nPPid:\t1\n", 7), Some(1));
        assert_eq!(parent_in("Tgid:\t7\nPid:\t8\nPPid:\t1\n", 8), None);
        assert_eq!(tracer_in("Name:\tx\nTracerPid:\t0\n"), None);
    }

    #[test]
    fn private_memory_is_that_which_can_be_remote_and_the_rest() {
        let smaps = "\
55d0c1a00000-55d0c2000000 rw-p 00000000 00:00 0 [heap]
Rss: 12 kB
Pss: 5 kB
Pss_Dirty: 5 kB
Anonymous: 9 kB
VmFlags: rd wr
7f5ddb000000-7f5dddc00000 rw-p 00000000 fe:00 99 /usr/lib/classes.jsa
Pss: 100 kB
Anonymous: 40 kB
7f5ddd000000-7f5dddc00000 r--p 00000000 fe:00 98 /usr/lib/libc.so.6
Pss: 3 kB
Anonymous: 4 kB
7f5dde000000-7f5ddec00000 rw-p 00000000 00:00 0
Pss: 1 kB
Anonymous: 1 kB
";
        let kib = |kib: u64| kib << 10;
        let expected =
            PrivateMemory { anonymous: kib(10), proportional_anonymous: kib(6), proportional_kept: kib(43) };
        assert_eq!(private_in(smaps), Some(expected));
        assert_eq!(private_in("Pss: 5 kB\nAnonymous: 9 kB\n"), None);
        assert_eq!(private_in(""), None);
    }

    #[test]
    fn this_process_is_there() {
        let pid = std::process::id();
        assert!(!has_ended(pid));
        assert!(anonymous_bytes(pid).unwrap() > kept_bytes(pid).unwrap() && kept_bytes(pid).unwrap() > 0);
        let private = private_memory(pid).unwrap();
        assert!(private.anonymous >= private.proportional_anonymous && private.proportional_kept > 0);
        assert!(executable(pid).is_some() && name(pid).is_some());
        assert_eq!(maps_file(pid, "/no such file"), Some(false));
        assert!(has_ended(u32::MAX));
        assert!(all().contains(&pid) && started(pid).is_some());
        assert_eq!(has_variable(pid, "UNRACK_NO_SUCH=1"), Some(false));
    }
}
