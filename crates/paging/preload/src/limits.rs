//! The limit on address space (`RLIMIT_AS`), of which the pager reserves more than 300 GiB: the program's limit is for the
//! program's own, so it is raised by what the pager has, and shown without that.

use libc::rlimit;
use unrack_pager::{attached, den};

/// Bytes that the kernel counts, and the program does not know of.
const RESERVED: u64 = den::LEN as u64;

fn is_counted(resource: libc::c_uint) -> bool {
    resource == libc::RLIMIT_AS as libc::c_uint && attached::control().is_some()
}

/// Returns the limits that the kernel has to be given so that the program gets what it asks for.
pub(crate) fn raised(resource: libc::c_uint, asked: rlimit) -> rlimit {
    match is_counted(resource) {
        true => rlimit { rlim_cur: more(asked.rlim_cur), rlim_max: more(asked.rlim_max) },
        false => asked,
    }
}

/// Returns the limits as the program may know them.
pub(crate) fn lowered(resource: libc::c_uint, kernels: rlimit) -> rlimit {
    match is_counted(resource) {
        true => rlimit { rlim_cur: less(kernels.rlim_cur), rlim_max: less(kernels.rlim_max) },
        false => kernels,
    }
}

fn more(limit: u64) -> u64 {
    // Beyond all others is infinity.
    if limit == libc::RLIM_INFINITY { limit } else { limit.saturating_add(RESERVED) }
}

fn less(limit: u64) -> u64 {
    // A limit that leaves nothing for the program was not set through here.
    match limit.checked_sub(RESERVED) {
        Some(less) if limit != libc::RLIM_INFINITY => less,
        _ => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_for_the_programs_own_and_infinity_stays() {
        for limit in [0, 400 << 20, libc::RLIM_INFINITY] {
            assert_eq!(less(more(limit)), limit);
        }
        assert_eq!(more(400 << 20), (400 << 20) + RESERVED);
        assert_eq!(less(400 << 20), 400 << 20, "not set through here");
    }
}
