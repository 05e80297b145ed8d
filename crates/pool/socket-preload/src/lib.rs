//! Preload library: carries the stream sockets of an unmodified program by reference, where the other end has it as well.
//!
//! It exports the C library's calls on sockets, and hands each to `unrack-socket`. A descriptor that is no such socket goes
//! straight to the kernel. `unrack sockets` loads it through `LD_PRELOAD`; so can anybody.
//!
//! | module | calls |
//! |---|---|
//! | [`bytes`] | `read`, `write`, `send`, `recv` and their kin |
//! | [`lists`] | `execl` and its kin |
//! | [`next`] | the C library's own |
//! | [`ready`] | `poll`, `select`, `epoll` |
//! | [`descriptors`] | `connect`, `accept`, `close`, `dup`, `shutdown`, options |
//! | [`files`] | `sendfile`, `splice` |
//! | [`printing`] | `dprintf` and its kin |
//! | [`processes`] | `fork`, `exec` and their kin |
//! | [`programs`] | whether a program will have this library |
//! | [`vectors`] | `preadv2`, `pwritev2` |
//! | [`references`] | this library's own: bytes where they lie |
//! | [`sandbox`] | `prctl`, `syscall`: filters of system calls |

pub mod bytes;
pub mod descriptors;
pub mod files;
pub mod lists;
mod next;
pub mod printing;
pub mod processes;
mod programs;
pub mod ready;
pub mod references;
pub mod sandbox;
pub mod vectors;
