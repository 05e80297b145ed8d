//! Requirements on the machine, checked before a program starts.

use crate::PagingError;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use unrack_pager::{blocking, pagemap, reserved_region, sys};

const LIBRARY: &str = "libunrack_preload.so";
/// Environment variable with the path of the preload library, for when it is not near the executable.
pub const PRELOAD_VARIABLE: &str = "UNRACK_PRELOAD";

/// Checks that the machine can run programs with remote memory.
///
/// # Errors
/// [`PagingError::Lacking`]; its text explains how to meet the requirement.
pub(crate) fn check() -> Result<(), PagingError> {
    let page = rustix::param::page_size();
    if page != sys::PAGE {
        return Err(PagingError::Lacking(format!(
            "this kernel's pages have {page} bytes, but the pager needs pages of {}: boot a kernel with those",
            sys::PAGE
        )));
    }
    sys::Uffd::open(blocking::FEATURES).map_err(no_userfaultfd)?;
    check_address_space()?;
    check_scan()
}

/// Checks all requirements of a run with remote memory, of this machine and of this installation.
///
/// # Errors
/// [`PagingError::Lacking`]; its text explains how to meet the requirement.
pub fn check_machine() -> Result<(), PagingError> {
    check()?;
    preload_library().map(drop)
}

/// Checks the limit on address space. The pager reserves addresses when it starts, and the limit counts reserved addresses like used ones.
fn check_address_space() -> Result<(), PagingError> {
    match getrlimit(Resource::As).current {
        Some(limit) if limit < reserved_region::LEN as u64 => Err(PagingError::Lacking(format!(
            "the pager reserves {} GiB of address space, but the limit here is {} MiB: raise it, for example by \
             `ulimit -v unlimited`",
            reserved_region::LEN >> 30,
            limit >> 20
        ))),
        _ => Ok(()),
    }
}

/// Checks the additional requirements of fast mode.
///
/// # Errors
/// [`PagingError::Lacking`]; its text explains how to meet the requirement.
#[cfg(target_arch = "x86_64")]
pub fn check_fast() -> Result<(), PagingError> {
    use unrack_pager::fast;
    sys::Uffd::open(fast::FEATURES).map_err(no_userfaultfd)?;
    match fast::can_dispatch() {
        true => Ok(()),
        false => Err(PagingError::Lacking(old_kernel("Syscall User Dispatch (CONFIG_GENERIC_ENTRY)"))),
    }
}

/// Always returns an error, because fast mode does not exist on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn check_fast() -> Result<(), PagingError> {
    Err(PagingError::Lacking("fast mode needs x86-64: leave out --fast".into()))
}

fn no_userfaultfd(why: Errno) -> PagingError {
    PagingError::Lacking(match why {
        Errno::PERM | Errno::ACCESS => "no permission to use userfaultfd: as root, `sysctl \
             vm.unprivileged_userfaultfd=1` or give this user access to /dev/userfaultfd; in a container, \
             also allow the system call in its seccomp profile"
            .into(),
        Errno::INVAL => old_kernel("UFFDIO_MOVE (Linux 6.8)"),
        Errno::NOSYS => old_kernel("userfaultfd (CONFIG_USERFAULTFD)"),
        why => format!("userfaultfd cannot be used here: {why}"),
    })
}

fn check_scan() -> Result<(), PagingError> {
    let scanned = std::fs::File::open("/proc/self/pagemap").map_err(|_| ()).and_then(|pagemap| {
        use std::os::fd::AsFd;
        let mut found = [pagemap::PageRegion::default()];
        pagemap::scan_present(pagemap.as_fd(), 0, sys::PAGE, &mut found).map_err(|_| ())
    });
    scanned.map(drop).map_err(|()| PagingError::Lacking(old_kernel("PAGEMAP_SCAN (Linux 6.7)")))
}

fn old_kernel(lacks: &str) -> String {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    format!("this kernel ({release}) lacks {lacks}: Linux 6.8 or newer is needed")
}

/// Returns the path of the preload library: the file that the environment names, or else the one next to the executable or installed near
/// it.
pub(crate) fn preload_library() -> Result<PathBuf, PagingError> {
    if let Some(named) = std::env::var_os(PRELOAD_VARIABLE) {
        let named = PathBuf::from(named);
        return absolute(&named).ok_or_else(|| {
            PagingError::Lacking(format!("{PRELOAD_VARIABLE} names {}, which is no file", named.display()))
        });
    }
    let executable = std::env::current_exe().map_err(PagingError::failed("find this executable"))?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/unrack").join(LIBRARY)];
    places.iter().find_map(|place| absolute(place)).ok_or_else(|| {
        PagingError::Lacking(format!(
            "{LIBRARY} is neither in {} nor in {}: build the whole workspace, or name it in {PRELOAD_VARIABLE}",
            folder.display(),
            folder.join("../lib/unrack").display()
        ))
    })
}

fn absolute(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}
