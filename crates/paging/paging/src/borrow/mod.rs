//! Memory borrowed from a process that is there already: part of it becomes remote, and comes back in the end.
//!
//! The first requirement is that the process goes on unharmed, however this ends. So nothing of it depends on `unrack`: the
//! agent's pager gives all memory back when `unrack` is gone, and no call of the program needs an answer from outside.
//!
//! | module | idea |
//! |---|---|
//! | `terms` | parameters and result of a loan |
//! | `host` | the process, and which ones are refused |
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
