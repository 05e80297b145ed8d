//! Operations with other programs and libraries: a second instance of this program, and a library that is loaded at run time.

use crate::model;
use crate::story::{expect, fail};
use crate::sys::{self, DescriptorPair};
use crate::worker::Worker;
use std::ffi::{CString, c_char};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use unrack_basis::{PAGE, mix_13};

/// Prepared start of this program as `mirror`, which checks the bytes that it reads and answers with other bytes.
pub(super) struct Mirror {
    path: CString,
    arguments: Vec<CString>,
    pointers: Vec<*const c_char>,
    to: DescriptorPair,
    from: DescriptorPair,
    key: u64,
    len: usize,
}

impl Mirror {
    /// Prepares the arguments, the pipes, and a random key and length.
    pub(super) fn prepare(w: &mut Worker) -> Mirror {
        let key = w.rng.next() | 1;
        let len = w.rng.between(1, 64 * PAGE);
        let text = |s: String| CString::new(s).unwrap_or_default();
        let arguments: Vec<CString> = ["unrack-stress", "mirror", &key.to_string(), &len.to_string()]
            .map(|s| text(s.to_string()))
            .into();
        let mut pointers: Vec<_> = arguments.iter().map(|a| a.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let path = text(own_path().to_string_lossy().into_owned());
        Mirror {
            path,
            arguments,
            pointers,
            to: DescriptorPair::pipe(),
            from: DescriptorPair::pipe(),
            key,
            len,
        }
    }

    /// Executes the program. To be called in a child process.
    ///
    /// # Safety
    ///
    /// The process may have no other code to run afterwards, because this call does not return.
    pub(super) unsafe fn exec(&self) -> ! {
        debug_assert_eq!(self.pointers.len(), self.arguments.len() + 1);
        // SAFETY: the descriptors are open; the lists end with null; only `_exit` follows a failure.
        unsafe {
            libc::dup2(self.to.0, 0);
            libc::dup2(self.from.1, 1);
            libc::execve(self.path.as_ptr(), self.pointers.as_ptr(), environ);
            libc::_exit(127)
        }
    }

    /// Sends the bytes that the child checks, and checks the child's answer.
    pub(super) fn talk(self, w: &mut Worker) {
        let Mirror { to, from, key, len, .. } = self;
        let out = pattern(key, len);
        let mut back = vec![0; len];
        // SAFETY: each duplicate belongs to one file only. Dropping `to` later closes the child's input.
        let (mut sink, mut source) = unsafe { (file(to.1), file(from.0)) };
        drop((to, from));
        if sink.write_all(&out).and_then(|()| source.read_exact(&mut back)).is_err() {
            fail("the other program ended early");
        }
        expect(model::check(&back, mix_13(key) | 1), "answer of another program");
        super::access::visit(w);
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Makes a file that owns a duplicate of the descriptor.
///
/// # Safety
///
/// `fd` must be open.
unsafe fn file(fd: i32) -> std::fs::File {
    use std::os::fd::FromRawFd;
    // SAFETY: the duplicate has no other owner.
    unsafe { std::fs::File::from_raw_fd(sys::must(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3), "dup")) }
}

/// Returns the bytes that the mirror expects.
fn pattern(key: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    model::fill(&mut bytes, key);
    bytes
}

fn own_path() -> std::path::PathBuf {
    std::env::current_exe().unwrap_or_else(|error| fail(format_args!("own path: {error}")))
}

/// Runs as the child of a [`Mirror`]: checks the bytes that it reads, and answers.
pub(crate) fn mirror(key: u64, len: usize) {
    let mut bytes = vec![0; len];
    if let Err(error) = std::io::stdin().lock().read_exact(&mut bytes) {
        fail(format_args!("mirror: {error}"));
    }
    expect(model::check(&bytes, key), "bytes from another program");
    model::fill(&mut bytes, mix_13(key) | 1);
    if let Err(error) = std::io::stdout().lock().write_all(&bytes) {
        fail(format_args!("mirror: {error}"));
    }
}

/// Starts this program by posix_spawn, or by fork and exec.
pub(super) fn spawn(w: &mut Worker) {
    use std::os::unix::process::CommandExt;
    let (key, len) = (w.rng.next() | 1, w.rng.between(1, 256 * PAGE));
    let mut command = Command::new(own_path());
    command.arg("mirror").arg(key.to_string()).arg(len.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if w.rng.one_in(2) {
        // SAFETY: the closure does nothing. Its presence makes the standard library use fork.
        unsafe { command.pre_exec(|| Ok(())) };
    }
    let ended = command.spawn().and_then(|mut child| {
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&pattern(key, len)))?;
        child.wait_with_output()
    });
    match ended {
        Ok(output) if output.status.success() && output.stdout.len() == len => {
            expect(model::check(&output.stdout, mix_13(key) | 1), "answer of a spawned program");
        }
        Ok(output) => fail(format_args!("spawned program: {}, {} bytes", output.status, output.stdout.len())),
        Err(error) => fail(format_args!("spawn: {error}")),
    }
}

/// Loads a library, calls a function of it and unloads it.
pub(super) fn dlopen(w: &mut Worker) {
    for (library, symbol) in [(c"libm.so.6", c"cos"), (c"libresolv.so.2", c"ns_get16")] {
        // SAFETY: both are parts of the C library; loading them runs no code of this program.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            fail(format_args!("dlopen {library:?}"));
        }
        // SAFETY: the handle is open.
        let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if library == c"libm.so.6" {
            // SAFETY: the symbol is `double cos(double)`.
            let cos: extern "C" fn(f64) -> f64 = unsafe { std::mem::transmute(found) };
            if cos(0.0).to_bits() != 1f64.to_bits() {
                fail("cos(0) is not 1");
            }
        }
        // SAFETY: the handle is open, and no symbol of the library is used afterwards.
        unsafe { libc::dlclose(handle) };
    }
    super::access::visit(w);
}
