//! System calls whose use of memory depends on a request code.

use super::raw::Args;

/// Memory that a request uses, or the reason why it is refused.
pub(super) type Request = Result<[(usize, usize); 3], &'static str>;

const NOTHING: (usize, usize) = (0, 0);

/// Returns the memory that a call with a request code uses; `None` for other calls.
pub(super) fn request(number: i64, args: Args) -> Option<Request> {
    Some(match number {
        libc::SYS_futex => Ok(futex(args)),
        libc::SYS_fcntl => fcntl(args),
        libc::SYS_ioctl => ioctl(args),
        libc::SYS_prctl => prctl(args),
        libc::SYS_arch_prctl => arch_prctl(args),
        libc::SYS_mincore => Ok([(args[2], args[1].div_ceil(crate::sys::PAGE)), NOTHING, NOTHING]),
        _ => return None,
    })
}

/// Returns the memory that `futex(2)` uses.
fn futex(args: Args) -> [(usize, usize); 3] {
    let word = (args[0], 4);
    let (timeout, other) = ((args[3], 16), (args[4], 4));
    match args[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | libc::FUTEX_LOCK_PI2 => {
            [word, timeout, NOTHING]
        }
        libc::FUTEX_WAIT_REQUEUE_PI => [word, timeout, other],
        // For these operations, the fourth argument is a number.
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE | libc::FUTEX_WAKE_OP | libc::FUTEX_CMP_REQUEUE_PI => {
            [word, other, NOTHING]
        }
        _ => [word, NOTHING, NOTHING],
    }
}

/// Returns the memory that `fcntl(2)` uses: a `struct flock` for locks, and 8 bytes for `F_*OWN_EX` and the 64-bit hints.
fn fcntl(args: Args) -> Request {
    const HINTS: core::ops::RangeInclusive<i32> = 1035..=1038;
    const OWNER_SET: i32 = 15;
    const OWNER_GET: i32 = 16;
    let len = match args[1] as i32 {
        libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW => 32,
        libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => 32,
        OWNER_SET | OWNER_GET => 8,
        hint if HINTS.contains(&hint) => 8,
        _ => 0,
    };
    Ok([(args[2], len), NOTHING, NOTHING])
}

/// Returns the memory that `ioctl(2)` uses on terminals, sockets and files. Requests of other devices are refused, because each device
/// passes addresses in a different way.
fn ioctl(args: Args) -> Request {
    // Types of requests that encode direction and size of their argument, which contains no addresses.
    const DECLARED: [u8; 3] = [b'f', b'T', 0x94];
    const OF_SOCKETS: core::ops::RangeInclusive<u64> = 0x8901..=0x89ff;
    let request = args[1] as u32 as u64;
    let len = match request {
        libc::FIONBIO
        | libc::FIOASYNC
        | libc::FIONREAD
        | libc::TIOCOUTQ
        | libc::TIOCGPGRP
        | libc::TIOCSPGRP => 4,
        libc::FIOCLEX | libc::FIONCLEX | libc::TIOCSCTTY | libc::TIOCNOTTY | libc::TCSBRK | libc::TCXONC => 0,
        libc::TCFLSH | libc::TIOCEXCL | libc::TIOCNXCL => 0,
        libc::TCGETS | libc::TCSETS | libc::TCSETSW | libc::TCSETSF => 64,
        libc::TIOCGWINSZ | libc::TIOCSWINSZ | libc::TIOCGSID => 8,
        // These requests take `struct ifreq`; those that contain an address are rare.
        0x8910..=0x8939 => return refused_ioctl(),
        _ if OF_SOCKETS.contains(&request) => return refused_ioctl(),
        0x1260 | 0x1268 | 0x1272 => 8,
        _ if DECLARED.contains(&((request >> 8) as u8)) => (request >> 16 & 0x3fff) as usize,
        _ => return refused_ioctl(),
    };
    Ok([(args[2], len), NOTHING, NOTHING])
}

fn refused_ioctl() -> Request {
    Err("an ioctl on a device")
}

/// Returns the memory that `prctl(2)` uses.
fn prctl(args: Args) -> Request {
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    let len = match args[0] as i32 {
        libc::PR_SET_SECCOMP => return Err("prctl(PR_SET_SECCOMP)"),
        libc::PR_SET_MM => return Err("prctl(PR_SET_MM)"),
        PR_SET_SYSCALL_USER_DISPATCH => return Err("prctl(PR_SET_SYSCALL_USER_DISPATCH)"),
        libc::PR_SET_NAME | libc::PR_GET_NAME => 16,
        libc::PR_GET_PDEATHSIG | libc::PR_GET_CHILD_SUBREAPER | libc::PR_GET_TSC | libc::PR_GET_UNALIGN => 8,
        _ => 0,
    };
    Ok([(args[1], len), NOTHING, NOTHING])
}

/// Returns the memory that `arch_prctl(2)` uses to return one of the two segment bases. A call that changes a base uses no memory; only the
/// C library makes such calls.
fn arch_prctl(args: Args) -> Request {
    const ARCH_GET_FS: usize = 0x1003;
    const ARCH_GET_GS: usize = 0x1004;
    let len = if matches!(args[0], ARCH_GET_FS | ARCH_GET_GS) { 8 } else { 0 };
    Ok([(args[1], len), NOTHING, NOTHING])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_futexs_fourth_argument_is_a_timeout_or_a_number() {
        let of = |op: i32| futex([64, op as usize, 0, 128, 256, 0]);
        assert_eq!(of(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG)[1], (128, 16));
        assert_eq!(of(libc::FUTEX_CMP_REQUEUE)[1], (256, 4));
        assert_eq!(of(libc::FUTEX_WAKE)[1], NOTHING);
    }

    #[test]
    fn devices_are_refused_and_terminals_are_not() {
        assert!(ioctl([0, libc::TCGETS as usize, 8, 0, 0, 0]).is_ok());
        // KVM_GET_SUPPORTED_CPUID.
        assert!(ioctl([0, 0xC008_AE05, 8, 0, 0, 0]).is_err());
    }
}
