//! A moment between two looks, and waiting for a line to be written where the processor can.

use unrack_pool::sync::AtomicU64;

/// What this processor has for programs that look again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    wait: Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// `umonitor`, `umwait` (WAITPKG).
    #[cfg(target_arch = "x86_64")]
    Umwait,
    /// `monitorx`, `mwaitx`.
    #[cfg(target_arch = "x86_64")]
    Mwaitx,
    Nothing,
}

/// The longest that the processor is told to wait, in ticks of its clock: some tens of microseconds.
#[cfg(target_arch = "x86_64")]
const TICKS: u64 = 50_000;

impl Pause {
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> Pause {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let wait = if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 5) != 0 {
            Wait::Umwait
        } else if __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).ecx & (1 << 29) != 0 {
            Wait::Mwaitx
        } else {
            Wait::Nothing
        };
        Pause { wait }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn detect() -> Pause {
        Pause { wait: Wait::Nothing }
    }

    /// What waits for lines, for reports.
    pub fn name(self) -> &'static str {
        match self.wait {
            #[cfg(target_arch = "x86_64")]
            Wait::Umwait => "umwait",
            #[cfg(target_arch = "x86_64")]
            Wait::Mwaitx => "mwaitx",
            Wait::Nothing => "pause",
        }
    }

    /// Between two looks.
    #[inline]
    pub fn moment(self) {
        std::hint::spin_loop();
    }

    /// Waits until the line of `entry` is written, or for a while, unless `ready`. Where the processor cannot, it
    /// is a moment.
    #[inline]
    pub fn until_written(self, entry: &AtomicU64, ready: impl FnOnce() -> bool) {
        match self.wait {
            Wait::Nothing => std::hint::spin_loop(),
            #[cfg(target_arch = "x86_64")]
            _ => {
                let at = std::ptr::from_ref(entry);
                // SAFETY: the processor has the instructions, was asked, and a reference is mapped.
                unsafe { self.monitor(at) };
                if !ready() {
                    // SAFETY: as above.
                    unsafe { self.wait() };
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (entry, ready);
    }

    /// # Safety
    /// The processor has the instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe fn monitor(self, at: *const AtomicU64) {
        use std::arch::asm;
        // SAFETY: the caller says that it is there; it changes nothing.
        unsafe {
            match self.wait {
                // umonitor rax
                Wait::Umwait => asm!(".byte 0xf3, 0x0f, 0xae, 0xf0", in("rax") at, options(nostack)),
                Wait::Mwaitx => {
                    // monitorx rax, ecx, edx
                    asm!(".byte 0x0f, 0x01, 0xfa", in("rax") at, in("ecx") 0, in("edx") 0, options(nostack));
                }
                Wait::Nothing => {}
            }
        }
    }

    /// # Safety
    /// As [`Pause::monitor`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn wait(self) {
        use std::arch::asm;
        // SAFETY: the caller says that the instruction is there. The time-out is in the clock of `rdtsc`.
        unsafe {
            match self.wait {
                Wait::Umwait => {
                    let until = std::arch::x86_64::_rdtsc() + TICKS;
                    // umwait ecx: C0.2, which saves more and wakes slower, is off.
                    asm!(
                        ".byte 0xf2, 0x0f, 0xae, 0xf1",
                        in("ecx") 1, in("eax") until as u32, in("edx") (until >> 32) as u32,
                        options(nostack),
                    );
                }
                Wait::Mwaitx => {
                    // mwaitx eax, ecx, with the time-out in ebx, which the compiler keeps for itself.
                    asm!(
                        "xchg rbx, {ticks}", ".byte 0x0f, 0x01, 0xfb", "xchg rbx, {ticks}",
                        ticks = inout(reg) TICKS => _, in("eax") 0, in("ecx") 2,
                        options(nostack),
                    );
                }
                Wait::Nothing => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    /// Whatever this processor has: a wait ends, and one that is not needed is none.
    #[test]
    fn waiting_for_a_line_ends() {
        let entry = AtomicU64::new(0);
        let pause = Pause::detect();
        for _ in 0..100 {
            pause.until_written(&entry, || true);
            pause.until_written(&entry, || entry.load(Ordering::Acquire) != 0);
        }
        assert!(!pause.name().is_empty());
    }
}
