//! Pauses between two polls, and waiting until a line is written if the processor supports this.
//!
//! A processor that waits for a line (`umwait`, `mwaitx`) is woken by stores that its caches observe, which are stores
//! to coherent memory by processors of the same machine. It does not observe stores of other hosts, or stores to
//! uncached memory. In these cases each poll is an access to memory, which competes with the writes that the thread
//! waits for. Therefore the thread pauses between polls, and the pauses grow with the time that it has waited.

use super::look::Moment;
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::sync::AtomicU64;

/// How to pause between polls of a certain kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    wait: PauseKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseKind {
    /// Uses `umonitor` and `umwait` (WAITPKG).
    #[cfg(target_arch = "x86_64")]
    Umwait,
    /// Uses `monitorx` and `mwaitx`.
    #[cfg(target_arch = "x86_64")]
    Mwaitx,
    /// Polls again at once, because the line stays in the cache until it is written.
    Poll,
    /// Polls again after a pause that grows.
    BackOff,
}

/// Longest wait that is requested of the processor, in ticks of its clock: some tens of microseconds.
#[cfg(target_arch = "x86_64")]
const TICKS: u64 = 50_000;
/// Ratio of the number of polls so far to the number of pause instructions in the next pause. With this ratio, an event
/// is found at most a sixteenth later, plus the poll itself.
const PART: u32 = 16;
/// Maximum pause instructions between two polls; they take a microsecond or two.
const MOST_PAUSES: u32 = 64;

impl Pause {
    /// Chooses how to wait for memory of a kind. `same_kernel` is true if the writer is a process of this kernel.
    pub fn new(mode: MemoryKind, same_kernel: bool) -> Pause {
        let wait = match (mode, same_kernel) {
            (MemoryKind::Coherent, true) => detect(),
            _ => PauseKind::BackOff,
        };
        Pause { wait }
    }

    /// Returns the name of the instruction that waits, for reports.
    pub fn name(self) -> &'static str {
        match self.wait {
            #[cfg(target_arch = "x86_64")]
            PauseKind::Umwait => "umwait",
            #[cfg(target_arch = "x86_64")]
            PauseKind::Mwaitx => "mwaitx",
            PauseKind::Poll => "pause",
            PauseKind::BackOff => "pause, backing off",
        }
    }

    /// Pauses while a thread waits for several lines. Returns whether the pause, or the poll before it, took long.
    #[inline]
    pub fn moment(self, moment: Moment) -> bool {
        match self.wait {
            PauseKind::BackOff => {
                back_off(moment);
                true
            }
            _ => {
                std::hint::spin_loop();
                false
            }
        }
    }

    /// Waits until the line of `entry` is written, or for a short time, unless `ready` returns true. Returns whether
    /// this took long. If the processor cannot wait for a line, does the same as [`moment`](Pause::moment).
    #[inline]
    pub fn until_written(self, entry: &AtomicU64, moment: Moment, ready: impl FnOnce() -> bool) -> bool {
        match self.wait {
            PauseKind::Poll | PauseKind::BackOff => self.moment(moment),
            #[cfg(target_arch = "x86_64")]
            PauseKind::Umwait | PauseKind::Mwaitx => {
                let at = std::ptr::from_ref(entry);
                // SAFETY: the processor reports that it has the instructions, and a reference is mapped.
                unsafe { self.monitor(at) };
                if !ready() {
                    // SAFETY: the processor reports that it has the instructions.
                    unsafe { self.wait(ticks(moment)) };
                }
                true
            }
        }
    }

    /// Arms the processor's monitor for the line at an address.
    ///
    /// # Safety
    /// The processor must have the instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe fn monitor(self, at: *const AtomicU64) {
        use std::arch::asm;
        // SAFETY: the caller guarantees that the instruction exists; the instruction changes no memory.
        unsafe {
            match self.wait {
                // umonitor rax
                PauseKind::Umwait => asm!(".byte 0xf3, 0x0f, 0xae, 0xf0", in("rax") at, options(nostack)),
                PauseKind::Mwaitx => {
                    // monitorx rax, ecx, edx
                    asm!(".byte 0x0f, 0x01, 0xfa", in("rax") at, in("ecx") 0, in("edx") 0, options(nostack));
                }
                PauseKind::Poll | PauseKind::BackOff => {}
            }
        }
    }

    /// Waits until the monitored line is written, but at most `ticks` of the processor's clock.
    ///
    /// # Safety
    /// As for [`Pause::monitor`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn wait(self, ticks: u64) {
        use std::arch::asm;
        // SAFETY: the caller guarantees that the instruction exists. The timeout is in ticks of the clock of `rdtsc`.
        unsafe {
            match self.wait {
                PauseKind::Umwait => {
                    let until = std::arch::x86_64::_rdtsc() + ticks;
                    // umwait ecx: bit 0 selects C0.1. C0.2 saves more power but wakes more slowly, so it is not used.
                    asm!(
                        ".byte 0xf2, 0x0f, 0xae, 0xf1",
                        in("ecx") 1, in("eax") until as u32, in("edx") (until >> 32) as u32,
                        options(nostack),
                    );
                }
                PauseKind::Mwaitx => {
                    // mwaitx eax, ecx: the timeout is in ebx, which the compiler reserves.
                    asm!(
                        "xchg rbx, {ticks}", ".byte 0x0f, 0x01, 0xfb", "xchg rbx, {ticks}",
                        ticks = inout(reg) ticks => _, in("eax") 0, in("ecx") 2,
                        options(nostack),
                    );
                }
                PauseKind::Poll | PauseKind::BackOff => {}
            }
        }
    }
}

/// Detects how this processor can wait for coherent memory of its machine.
#[cfg(target_arch = "x86_64")]
fn detect() -> PauseKind {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 5) != 0 {
        PauseKind::Umwait
    } else if __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).ecx & (1 << 29) != 0 {
        PauseKind::Mwaitx
    } else {
        PauseKind::Poll
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> PauseKind {
    PauseKind::Poll
}

/// Returns a number of ticks that takes no longer than the time that is left, because no processor with these
/// instructions has a clock below 1 GHz.
#[cfg(target_arch = "x86_64")]
fn ticks(moment: Moment) -> u64 {
    moment.left.as_nanos().min(u128::from(TICKS)) as u64
}

fn back_off(moment: Moment) {
    for _ in 0..pauses(moment) {
        std::hint::spin_loop();
    }
}

fn pauses(moment: Moment) -> u32 {
    (moment.looks / PART).clamp(1, MOST_PAUSES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    const MOMENT: Moment = Moment { looks: 1, left: Duration::from_micros(5) };

    /// A wait ends on any processor, and returns at once if the line is already written.
    #[test]
    fn waiting_for_a_line_ends() {
        let entry = AtomicU64::new(0);
        for mode in [MemoryKind::Coherent, MemoryKind::Incoherent, MemoryKind::Uncached, MemoryKind::Model] {
            let pause = Pause::new(mode, true);
            for _ in 0..100 {
                pause.until_written(&entry, MOMENT, || true);
                pause.until_written(&entry, MOMENT, || entry.load(Ordering::Acquire) != 0);
            }
            assert!(!pause.name().is_empty());
        }
    }

    /// The processor does not wait for a line if no store would wake it. The clock is then read after each poll.
    #[test]
    fn lines_are_waited_for_in_coherent_memory_of_one_kernel_only() {
        for mode in [MemoryKind::Incoherent, MemoryKind::Uncached, MemoryKind::Model] {
            for same_kernel in [false, true] {
                assert_eq!(Pause::new(mode, same_kernel).wait, PauseKind::BackOff, "{mode}");
            }
        }
        assert_eq!(Pause::new(MemoryKind::Coherent, false).wait, PauseKind::BackOff);
        assert_eq!(Pause::new(MemoryKind::Coherent, true).wait, detect());
        assert!(Pause::new(MemoryKind::Incoherent, true).moment(MOMENT));
    }

    #[test]
    fn pauses_grow_with_what_was_waited_and_have_an_end() {
        let after = |looks| pauses(Moment { looks, ..MOMENT });
        assert_eq!([after(0), after(31), after(32), after(160)], [1, 1, 2, 10]);
        assert_eq!([after(1_000_000), after(u32::MAX)], [MOST_PAUSES; 2]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_processor_waits_no_longer_than_there_is_time() {
        let within = |ns| ticks(Moment { looks: 1, left: Duration::from_nanos(ns) });
        assert_eq!([within(0), within(700), within(1 << 40)], [0, 700, TICKS]);
        assert_eq!(ticks(Moment { looks: 1, left: Duration::MAX }), TICKS);
    }
}
