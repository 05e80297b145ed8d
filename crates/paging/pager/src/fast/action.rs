//! Signal actions: the versions that the kernel has, and the versions that the program sees.

use super::raw::{self, Plain};
use super::thread::OURS;
use core::ffi::c_int;

const SA_RESTORER: usize = 0x0400_0000;
/// Flags of an action that the kernel acts on, whether the handler is the program's or fast mode's.
const KERNELS: usize =
    (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT | libc::SA_RESTART | libc::SA_RESETHAND) as usize;

/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
#[derive(Clone, Copy)]
pub(super) struct Action([usize; 4]);

impl Action {
    /// Default action of a signal.
    pub(super) const DEFAULT: Action = Action([libc::SIG_DFL, 0, 0, 0]);

    /// Makes the kernel's action for a handler of fast mode. The handler returns through the instructions at `restorer`.
    pub(super) fn ours(handler: usize, restorer: usize) -> Action {
        const FLAGS: usize = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as usize | SA_RESTORER;
        Action([handler, FLAGS, restorer, !OURS as usize])
    }

    /// Returns the address of the handler, or `SIG_DFL` or `SIG_IGN`.
    pub(super) fn handler(&self) -> usize {
        self.0[0]
    }

    /// Returns whether a flag is set.
    pub(super) fn has(&self, flag: c_int) -> bool {
        self.0[1] & flag as usize != 0
    }

    /// Returns the address to which the handler of this action returns.
    pub(super) fn restorer(&self) -> usize {
        self.0[2]
    }

    /// Returns the signals that are blocked while `signal` is handled.
    pub(super) fn blocks(&self, signal: c_int) -> u64 {
        self.0[3] as u64 | if self.has(libc::SA_NODEFER) { 0 } else { bit(signal) }
    }

    /// Returns whether the action has a handler, which means that it neither ignores the signal nor is the default.
    pub(super) fn is_handler(&self) -> bool {
        !matches!(self.handler(), libc::SIG_DFL | libc::SIG_IGN)
    }

    /// Installs this action in the kernel, and returns the previous one.
    pub(super) fn install(&self, signal: c_int) -> Result<Action, isize> {
        Action::exchange(signal, Some(self))
    }

    /// Returns the kernel's action for a signal, and replaces it with `new` if there is a new one.
    pub(super) fn exchange(signal: c_int, new: Option<&Action>) -> Result<Action, isize> {
        let mut before = Action::DEFAULT;
        let new = new.map_or(0, |action| action.0.as_ptr() as usize);
        let args = [signal as usize, new, before.0.as_mut_ptr() as usize, size_of::<u64>(), 0, 0];
        // SAFETY: either the program's own call on our copies, or an action with a handler of fast mode.
        let result = unsafe { raw::call(libc::SYS_rt_sigaction as usize, args) };
        if raw::is_error(result) { Err(result) } else { Ok(before) }
    }

    /// Converts an action of the kernel to the one that the program expects to see. If the kernel's action is `any`, the program has set
    /// `known`; the kernel itself may have reset the handler to the default.
    pub(super) fn as_program_knows(self, any: &Action, known: Action) -> Action {
        match self.0[0] {
            _ if self.restorer() != any.restorer() => self,
            handler if handler == any.handler() => known,
            handler => Action([handler, known.0[1], known.0[2], known.0[3]]),
        }
    }

    /// Returns the action to install in the kernel when the program sets this action: `any` in place of a handler. In a guest, which is a
    /// child that shares its parent's memory for a moment, handlers are installed directly and run on the normal stack.
    pub(super) fn for_kernel(self, any: &Action, is_guest: bool) -> Action {
        let Action([handler, flags, restorer, mask]) = self;
        match self.is_handler() {
            false => self,
            true if is_guest => {
                Action([handler, flags & !(libc::SA_ONSTACK as usize), restorer, mask & !OURS as usize])
            }
            true => {
                let Action([handler, own, restorer, mask]) = *any;
                Action([handler, own | flags & KERNELS, restorer, mask])
            }
        }
    }
}

// SAFETY: consists of numbers.
unsafe impl Plain for Action {
    const ZERO: Action = Action::DEFAULT;
}

/// Returns the bit of a signal in a signal set.
pub(super) const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_our_handler_and_the_flags_that_matter_to_it() {
        let any = Action::ours(64, 128);
        let flags = (libc::SA_RESTART | libc::SA_NOCLDWAIT) as usize;
        let told = Action([4096, flags | libc::SA_NODEFER as usize, 8192, 1]).for_kernel(&any, false);
        assert_eq!(told.0, [64, any.0[1] | flags, 128, !OURS as usize]);
        let ignored = Action([libc::SIG_IGN, flags, 8192, 1]);
        assert_eq!(ignored.for_kernel(&any, false).0, ignored.0);
    }

    #[test]
    fn the_program_is_told_what_it_set() {
        let (any, set) = (Action::ours(64, 128), Action([4096, libc::SA_RESETHAND as usize, 8192, 1]));
        let told = set.for_kernel(&any, false);
        assert_eq!(told.as_program_knows(&any, set).0, set.0);
        let reset = Action([libc::SIG_DFL, told.0[1], told.0[2], told.0[3]]);
        assert_eq!(reset.as_program_knows(&any, set).0, [libc::SIG_DFL, set.0[1], set.0[2], set.0[3]]);
        assert_eq!(Action::DEFAULT.as_program_knows(&any, set).0, Action::DEFAULT.0);
    }

    #[test]
    fn a_handler_blocks_its_own_signal_unless_it_says_otherwise() {
        let of = |flags: c_int| Action([4096, flags as usize, 8192, 1]).blocks(libc::SIGUSR1);
        assert_eq!(of(0), 1 | bit(libc::SIGUSR1));
        assert_eq!(of(libc::SA_NODEFER), 1);
    }
}
