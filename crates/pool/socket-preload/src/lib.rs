//! Preload library that carries the stream sockets of an unmodified program by reference, if the other end of the connection has this
//! library as well.
//!
//! The library exports the C library's calls on sockets, and passes each to `unrack-socket`. Calls on any other descriptor go straight to
//! the kernel. `unrack sockets` loads the library through `LD_PRELOAD`; other launchers can do the same.
//!
//! | module | calls |
//! |---|---|
//! | [`bytes`] | `read`, `write`, `send`, `recv` and related calls |
//! | [`lists`] | `execl` and related calls |
//! | [`next`] | the C library's functions that the wrappers call |
//! | [`ready`] | `poll`, `select`, `epoll` |
//! | [`descriptors`] | `connect`, `accept`, `close`, `dup`, `shutdown`, options |
//! | [`files`] | `sendfile`, `splice` |
//! | [`printing`] | `dprintf` and related calls |
//! | [`processes`] | `fork`, `exec` and related calls |
//! | [`programs`] | none: finds out whether a program will have this library |
//! | [`vectors`] | `preadv2`, `pwritev2` |
//! | [`references`] | this library's additional calls, which read and write bytes in place |
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
