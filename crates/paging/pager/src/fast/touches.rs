//! Memory that the kernel uses in each system call.
//!
//! References: the manual page of each call; `include/linux/syscalls.h`.

/// Memory that a system call uses, described by the numbers of its arguments (0 to 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TouchedMemory {
    /// Bytes at the address in argument `.0`; argument `.1` is their number.
    Bytes(u8, u8),
    /// `.1` bytes at argument `.0`.
    Fixed(u8, u16),
    /// Array at argument `.0`: argument `.1` elements of `.2` bytes each.
    Array(u8, u8, u16),
    /// Text at argument `.0`, which ends with a zero byte.
    Text(u8),
    /// Addresses of texts, at argument `.0`; the last is 0.
    Texts(u8),
    /// Vector at argument `.0`: `struct iovec`s, whose number is argument `.1`, and the memory that they describe.
    Vector(u8, u8),
    /// Argument `.0` must be the number of this process; otherwise the call is refused.
    Own(u8),
    /// A `struct msghdr` at argument `.0`, and all memory that it describes.
    Message(u8),
    /// Messages at argument `.0`: `struct mmsghdr`s, whose number is argument `.1`.
    Messages(u8, u8),
    /// Bytes at argument `.0`; the `u32` at the address in argument `.1` is their number.
    Sized(u8, u8),
    /// Bits at argument `.0`, one for each descriptor; argument `.1` is the number of descriptors.
    Bits(u8, u8),
}

use TouchedMemory::*;

/// Returns the memory that system call `number` uses; `None` if the call is not in this table.
pub(super) fn touches(number: i64) -> Option<&'static [TouchedMemory]> {
    // Calls whose use of memory depends on a request code are in `requests`.
    Some(match number {
        libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => &[Bytes(1, 2)],
        libc::SYS_readv | libc::SYS_writev | libc::SYS_preadv | libc::SYS_pwritev => &[Vector(1, 2)],
        libc::SYS_preadv2 | libc::SYS_pwritev2 => &[Vector(1, 2)],
        libc::SYS_getdents64 | libc::SYS_getdents => &[Bytes(1, 2)],
        libc::SYS_getrandom => &[Bytes(0, 1)],
        libc::SYS_sendfile => &[Fixed(2, 8)],
        libc::SYS_splice | libc::SYS_copy_file_range => &[Fixed(1, 8), Fixed(3, 8)],
        _ => {
            return files(number)
                .or_else(|| sockets(number))
                .or_else(|| others(number))
                .or_else(|| plain(number));
        }
    })
}

fn files(number: i64) -> Option<&'static [TouchedMemory]> {
    Some(match number {
        libc::SYS_open | libc::SYS_creat | libc::SYS_access | libc::SYS_chdir | libc::SYS_chroot => {
            &[Text(0)]
        }
        libc::SYS_mkdir | libc::SYS_rmdir | libc::SYS_unlink | libc::SYS_chmod | libc::SYS_chown => {
            &[Text(0)]
        }
        libc::SYS_lchown | libc::SYS_truncate | libc::SYS_mknod | libc::SYS_memfd_create => &[Text(0)],
        libc::SYS_openat | libc::SYS_mkdirat | libc::SYS_unlinkat | libc::SYS_faccessat => &[Text(1)],
        libc::SYS_faccessat2 | libc::SYS_fchmodat | libc::SYS_fchownat | libc::SYS_mknodat => &[Text(1)],
        libc::SYS_inotify_add_watch => &[Text(1)],
        libc::SYS_openat2 => &[Text(1), Bytes(2, 3)],
        libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => &[Text(0), Text(1)],
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => &[Text(1), Text(3)],
        libc::SYS_symlinkat => &[Text(0), Text(2)],
        libc::SYS_stat | libc::SYS_lstat => &[Text(0), Fixed(1, 144)],
        libc::SYS_fstat => &[Fixed(1, 144)],
        libc::SYS_newfstatat => &[Text(1), Fixed(2, 144)],
        libc::SYS_statx => &[Text(1), Fixed(4, 256)],
        libc::SYS_statfs => &[Text(0), Fixed(1, 120)],
        libc::SYS_fstatfs => &[Fixed(1, 120)],
        libc::SYS_ustat => &[Fixed(1, 32)],
        libc::SYS_readlink => &[Text(0), Bytes(1, 2)],
        libc::SYS_readlinkat => &[Text(1), Bytes(2, 3)],
        libc::SYS_getcwd => &[Bytes(0, 1)],
        libc::SYS_utime => &[Text(0), Fixed(1, 16)],
        libc::SYS_utimes => &[Text(0), Fixed(1, 32)],
        libc::SYS_futimesat | libc::SYS_utimensat => &[Text(1), Fixed(2, 32)],
        libc::SYS_getxattr | libc::SYS_lgetxattr | libc::SYS_setxattr | libc::SYS_lsetxattr => {
            &[Text(0), Text(1), Bytes(2, 3)]
        }
        libc::SYS_fgetxattr | libc::SYS_fsetxattr => &[Text(1), Bytes(2, 3)],
        libc::SYS_listxattr | libc::SYS_llistxattr => &[Text(0), Bytes(1, 2)],
        libc::SYS_flistxattr => &[Bytes(1, 2)],
        libc::SYS_removexattr | libc::SYS_lremovexattr => &[Text(0), Text(1)],
        libc::SYS_fremovexattr => &[Text(1)],
        libc::SYS_pipe | libc::SYS_pipe2 => &[Fixed(0, 8)],
        libc::SYS_poll => &[Array(0, 1, 8)],
        libc::SYS_ppoll => &[Array(0, 1, 8), Fixed(2, 16), Fixed(3, 8)],
        libc::SYS_select => &[Bits(1, 0), Bits(2, 0), Bits(3, 0), Fixed(4, 16)],
        libc::SYS_pselect6 => &[Bits(1, 0), Bits(2, 0), Bits(3, 0), Fixed(4, 16), Fixed(5, 16)],
        libc::SYS_epoll_ctl => &[Fixed(3, 12)],
        libc::SYS_epoll_wait => &[Array(1, 2, 12)],
        libc::SYS_epoll_pwait => &[Array(1, 2, 12), Fixed(4, 8)],
        libc::SYS_epoll_pwait2 => &[Array(1, 2, 12), Fixed(3, 16), Fixed(4, 8)],
        libc::SYS_signalfd => &[Fixed(1, 8)],
        libc::SYS_signalfd4 => &[Fixed(1, 8)],
        _ => return None,
    })
}

fn sockets(number: i64) -> Option<&'static [TouchedMemory]> {
    Some(match number {
        libc::SYS_bind | libc::SYS_connect => &[Bytes(1, 2)],
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_getsockname | libc::SYS_getpeername => {
            &[Fixed(2, 4), Sized(1, 2)]
        }
        libc::SYS_sendto => &[Bytes(1, 2), Bytes(4, 5)],
        libc::SYS_recvfrom => &[Bytes(1, 2), Fixed(5, 4), Sized(4, 5)],
        libc::SYS_sendmsg | libc::SYS_recvmsg => &[Message(1)],
        libc::SYS_sendmmsg => &[Messages(1, 2)],
        libc::SYS_recvmmsg => &[Messages(1, 2), Fixed(4, 16)],
        libc::SYS_setsockopt => &[Bytes(3, 4)],
        libc::SYS_getsockopt => &[Fixed(4, 4), Sized(3, 4)],
        libc::SYS_socketpair => &[Fixed(3, 8)],
        _ => return None,
    })
}

/// Calls for time, processes, signals and semaphores.
fn others(number: i64) -> Option<&'static [TouchedMemory]> {
    Some(match number {
        libc::SYS_nanosleep => &[Fixed(0, 16), Fixed(1, 16)],
        libc::SYS_clock_nanosleep => &[Fixed(2, 16), Fixed(3, 16)],
        libc::SYS_clock_gettime | libc::SYS_clock_settime | libc::SYS_clock_getres => &[Fixed(1, 16)],
        libc::SYS_gettimeofday | libc::SYS_settimeofday => &[Fixed(0, 16), Fixed(1, 8)],
        libc::SYS_time => &[Fixed(0, 8)],
        libc::SYS_times => &[Fixed(0, 32)],
        libc::SYS_adjtimex => &[Fixed(0, 208)],
        libc::SYS_clock_adjtime => &[Fixed(1, 208)],
        libc::SYS_getitimer => &[Fixed(1, 32)],
        libc::SYS_setitimer => &[Fixed(1, 32), Fixed(2, 32)],
        libc::SYS_timer_create => &[Fixed(1, 64), Fixed(2, 4)],
        libc::SYS_timer_settime | libc::SYS_timerfd_settime => &[Fixed(2, 32), Fixed(3, 32)],
        libc::SYS_timer_gettime | libc::SYS_timerfd_gettime => &[Fixed(1, 32)],
        libc::SYS_execve => &[Text(0), Texts(1), Texts(2)],
        libc::SYS_execveat => &[Text(1), Texts(2), Texts(3)],
        libc::SYS_wait4 => &[Fixed(1, 4), Fixed(3, 144)],
        libc::SYS_waitid => &[Fixed(2, 128), Fixed(4, 144)],
        libc::SYS_getrusage => &[Fixed(1, 144)],
        libc::SYS_getrlimit | libc::SYS_setrlimit => &[Fixed(1, 16)],
        libc::SYS_prlimit64 => &[Fixed(2, 16), Fixed(3, 16)],
        libc::SYS_uname => &[Fixed(0, 390)],
        libc::SYS_sethostname | libc::SYS_setdomainname => &[Bytes(0, 1)],
        libc::SYS_sysinfo => &[Fixed(0, 112)],
        libc::SYS_getcpu => &[Fixed(0, 4), Fixed(1, 4)],
        libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity => &[Bytes(2, 1)],
        libc::SYS_sched_setparam | libc::SYS_sched_getparam => &[Fixed(1, 4)],
        libc::SYS_sched_setscheduler => &[Fixed(2, 4)],
        libc::SYS_sched_rr_get_interval => &[Fixed(1, 16)],
        libc::SYS_sched_getattr => &[Bytes(1, 2)],
        libc::SYS_sched_setattr => &[Fixed(1, 56)],
        libc::SYS_getgroups | libc::SYS_setgroups => &[Array(1, 0, 4)],
        libc::SYS_getresuid | libc::SYS_getresgid => &[Fixed(0, 4), Fixed(1, 4), Fixed(2, 4)],
        libc::SYS_capget | libc::SYS_capset => &[Fixed(0, 8), Fixed(1, 24)],
        libc::SYS_rt_sigpending => &[Bytes(0, 1)],
        libc::SYS_rt_sigtimedwait => &[Fixed(0, 8), Fixed(1, 128), Fixed(2, 16)],
        libc::SYS_rt_sigqueueinfo => &[Fixed(2, 128)],
        libc::SYS_rt_tgsigqueueinfo => &[Fixed(3, 128)],
        libc::SYS_pidfd_send_signal => &[Fixed(2, 128)],
        libc::SYS_rt_sigsuspend => &[Fixed(0, 8)],
        libc::SYS_get_robust_list => &[Fixed(1, 8), Fixed(2, 8)],
        libc::SYS_process_vm_readv | libc::SYS_process_vm_writev => &[Own(0), Vector(1, 2), Vector(3, 4)],
        libc::SYS_semop => &[Array(1, 2, 6)],
        libc::SYS_semtimedop => &[Array(1, 2, 6), Fixed(3, 16)],
        libc::SYS_shmctl => &[Fixed(2, 128)],
        libc::SYS_get_mempolicy => &[Fixed(0, 4), Fixed(1, 128)],
        libc::SYS_set_mempolicy => &[Fixed(1, 128)],
        libc::SYS_mbind => &[Fixed(3, 128)],
        libc::SYS_syslog => &[Bytes(1, 2)],
        libc::SYS_rseq => &[Bytes(0, 1)],
        libc::SYS_set_tid_address => &[Fixed(0, 4)],
        _ => return None,
    })
}

/// Returns an empty list for calls that use no memory of the program, or only memory that is never evicted.
fn plain(number: i64) -> Option<&'static [TouchedMemory]> {
    matches!(
        number,
        libc::SYS_lseek
            | libc::SYS_close
            | libc::SYS_close_range
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_exit
            | libc::SYS_dup
            | libc::SYS_pause
            | libc::SYS_alarm
            | libc::SYS_getpid
            | libc::SYS_gettid
            | libc::SYS_getppid
            | libc::SYS_getpgrp
            | libc::SYS_getpgid
            | libc::SYS_setpgid
            | libc::SYS_getsid
            | libc::SYS_setsid
            | libc::SYS_getuid
            | libc::SYS_getgid
            | libc::SYS_geteuid
            | libc::SYS_getegid
            | libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
            | libc::SYS_umask
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_sync
            | libc::SYS_syncfs
            | libc::SYS_sync_file_range
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_fadvise64
            | libc::SYS_readahead
            | libc::SYS_flock
            | libc::SYS_fchdir
            | libc::SYS_fchmod
            | libc::SYS_fchown
            | libc::SYS_socket
            | libc::SYS_listen
            | libc::SYS_shutdown
            | libc::SYS_tee
            | libc::SYS_kill
            | libc::SYS_tkill
            | libc::SYS_tgkill
            | libc::SYS_sched_yield
            | libc::SYS_sched_getscheduler
            | libc::SYS_sched_get_priority_max
            | libc::SYS_sched_get_priority_min
            | libc::SYS_getpriority
            | libc::SYS_setpriority
            | libc::SYS_ioprio_get
            | libc::SYS_ioprio_set
            | libc::SYS_personality
            | libc::SYS_exit_group
            | libc::SYS_restart_syscall
            | libc::SYS_set_robust_list
            | libc::SYS_membarrier
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_inotify_rm_watch
            | libc::SYS_timerfd_create
            | libc::SYS_timer_delete
            | libc::SYS_timer_getoverrun
            | libc::SYS_msync
            | libc::SYS_semget
            | libc::SYS_shmget
            | libc::SYS_shmdt
            | libc::SYS_msgget
            | libc::SYS_pidfd_open
            | libc::SYS_pidfd_getfd
            | libc::SYS_kcmp
            | libc::SYS_vhangup
            | libc::SYS_pkey_alloc
            | libc::SYS_pkey_free
    )
    .then_some(&[])
}
