//! Borrows memory of a process that runs already: part of its memory becomes remote, and comes back at the end.
//!
//! The first requirement is that the process survives unharmed, however the loan ends. Therefore the process does not depend on `unrack`:
//! the agent's pager gives all memory back if `unrack` is gone, and no system call of the program needs an answer from outside.
//!
//! | module | idea |
//! |---|---|
//! | `terms` | parameters and result of a loan |
//! | `host` | the process whose memory is borrowed, and the reasons to refuse one |
//! | `loan` | a loan from its start to its end |
//! | `absent` | `host` and `loan` for machines on which there is no agent |

#[cfg(not(target_arch = "x86_64"))]
mod absent;
#[cfg(target_arch = "x86_64")]
mod host;
#[cfg(target_arch = "x86_64")]
mod loan;
mod terms;

#[cfg(not(target_arch = "x86_64"))]
pub use absent::{RunningProgram, borrow};
#[cfg(target_arch = "x86_64")]
pub use host::RunningProgram;
#[cfg(target_arch = "x86_64")]
pub use loan::borrow;
pub use terms::{BorrowReport, BorrowSetup, LEFT_OUT};
