//! Memory of the agent in a program, and the addresses of its parts.

use super::filter;
use super::image::Image;
use super::remote::{Call, Saved, system_call};
use crate::trace::{self, raw};
use rustix::io::Errno;
use std::ffi::CStr;
use unrack_pager::pins;
use unrack_pager::sys::PAGE;

/// Bytes of one stack. Two stacks follow the agent's data in the same mapping, which the pager never makes remote.
const STACK: usize = 128 << 10;
const STACKS: usize = 2;

/// State of a program when it gets the agent.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The threads of the program have the filter already.
    pub is_filtered: bool,
    /// The program has been running for a while.
    pub is_late: bool,
}

/// The agent in one address space.
#[derive(Clone, Copy)]
pub(super) struct AgentSite {
    /// Address of the agent's mapping (`base`), and its length in bytes (`len`).
    base: usize,
    len: usize,
    enter: usize,
    begin: usize,
    before_fork: usize,
    after_fork: usize,
    in_child: usize,
    merge: usize,
    leave: usize,
    receive: usize,
    borrow: usize,
    forsake: usize,
    /// Stack of calls for which the tracer waits (`short_stack`), and of calls for which it does not wait (`long_stack`).
    short_stack: usize,
    long_stack: usize,
    /// Address of the table of pinned pages.
    pins: usize,
    /// Address of a system call instruction.
    instruction: usize,
}

impl AgentSite {
    /// Puts the agent into a program and starts its pager. All threads of the program must be stopped. `thread` is one of them, and its
    /// state must be saved.
    ///
    /// # Errors
    /// `ESRCH` if the program was killed meanwhile. After any other error the program runs without the agent.
    pub(super) fn take(
        image: &Image,
        thread: u32,
        saved: &Saved,
        entry: Entry,
        control: &CStr,
    ) -> Result<AgentSite, Errno> {
        let place = AgentSite::put(image, thread, saved)?;
        if !entry.is_filtered {
            let call = |number, arguments| system_call(thread, saved, place.instruction, number, arguments);
            install_filter(thread, place.buffer(), call)?;
        }
        raw::write_memory(thread, place.buffer(), control.to_bytes_with_nul())?;
        let arguments = [place.buffer(), entry.is_late as usize];
        place.pinning_in(place.short(place.begin, arguments).make(thread, saved)?)
    }

    /// Maps the agent into a program, like [`AgentSite::take`], but does not start the pager.
    ///
    /// # Errors
    /// As for [`AgentSite::take`].
    pub(super) fn put(image: &Image, thread: u32, saved: &Saved) -> Result<AgentSite, Errno> {
        let instruction = trace::system_call_instruction(thread)?;
        let call = |number, arguments| system_call(thread, saved, instruction, number, arguments);
        let (rw, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let (stacks, end) = (image.len, image.len + STACKS * STACK);
        let base = call(libc::SYS_mmap, [0, end + PAGE, rw as usize, private as usize, usize::MAX, 0])?;
        raw::write_memory(thread, base, &image.at(base))?;
        for part in image.sealed() {
            let execute = if part.is_code { libc::PROT_EXEC } else { 0 };
            call(
                libc::SYS_mprotect,
                [base + part.at, part.len, (libc::PROT_READ | execute) as usize, 0, 0, 0],
            )?;
        }
        // An inaccessible page separates the agent's data mapping from mappings of the program.
        call(libc::SYS_mprotect, [base + end, PAGE, libc::PROT_NONE as usize, 0, 0, 0])?;
        let function = |name| base + image.function(name);
        Ok(AgentSite {
            base,
            len: end + PAGE,
            enter: function("enter"),
            begin: function("begin"),
            before_fork: function("before_fork"),
            after_fork: function("after_fork"),
            in_child: function("in_child"),
            merge: function("merge"),
            leave: function("leave"),
            receive: function("receive"),
            borrow: function("borrow"),
            forsake: function("forsake"),
            short_stack: base + stacks + STACK,
            long_stack: base + end,
            pins: 0,
            instruction,
        })
    }

    /// Returns the place completed by the address of the table of pinned pages, which is the result of a function of the agent.
    pub(super) fn pinning_in(self, result: isize) -> Result<AgentSite, Errno> {
        Ok(AgentSite { pins: or_error(result)?, ..self })
    }

    /// Returns the address and the length in bytes of the agent's mapping.
    pub(super) fn mapping(&self) -> (usize, usize) {
        (self.base, self.len)
    }

    /// Returns the address of memory that may be used while no long function runs.
    pub(super) fn buffer(&self) -> usize {
        self.short_stack
    }

    /// Returns the address of a system call instruction.
    pub(super) fn instruction(&self) -> usize {
        self.instruction
    }

    /// Returns the address of a word that may be used while no short function runs.
    pub(super) fn scratch(&self) -> usize {
        self.short_stack - STACK
    }

    pub(super) fn receive(&self, socket: usize) -> Call {
        self.short(self.receive, [socket, 0])
    }

    pub(super) fn borrow(&self) -> Call {
        self.short(self.borrow, [0, 0])
    }

    pub(super) fn forsake(&self) -> Call {
        self.short(self.forsake, [0, 0])
    }

    pub(super) fn before_fork(&self) -> Call {
        self.long(self.before_fork, [0, 0])
    }

    pub(super) fn after_fork(&self) -> Call {
        self.short(self.after_fork, [0, 0])
    }

    pub(super) fn in_child(&self) -> Call {
        self.short(self.in_child, [0, 0])
    }

    pub(super) fn merge(&self, start: usize, len: usize) -> Call {
        self.long(self.merge, [start, len])
    }

    pub(super) fn leave(&self) -> Call {
        self.long(self.leave, [0, 0])
    }

    fn short(&self, function: usize, arguments: [usize; 2]) -> Call {
        Call { enter: self.enter, function, arguments, stack: self.short_stack }
    }

    fn long(&self, function: usize, arguments: [usize; 2]) -> Call {
        Call { enter: self.enter, function, arguments, stack: self.long_stack }
    }

    /// Pins a page, as [`pins`] does inside the program. Only the tracer pins, so that the table has a single writer.
    pub(super) fn pin(&self, thread: u32, page: usize) -> Result<(), Errno> {
        for slot in pins::slots(page) {
            let (at, mut held) = (self.pins + slot * size_of::<usize>(), [0u8; size_of::<usize>()]);
            raw::read_memory(thread, at, &mut held)?;
            match usize::from_ne_bytes(held) {
                0 => return raw::write_memory(thread, at, &page.to_ne_bytes()),
                held if held == page => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Converts the result of a function of the agent that returns negative error numbers, as the kernel does.
pub(super) fn or_error(result: isize) -> Result<usize, Errno> {
    match result {
        error @ -4095..0 => Err(Errno::from_raw_os_error(-error as i32)),
        result => Ok(result as usize),
    }
}

/// Installs the filter. Without root rights, the thread first sets `PR_SET_NO_NEW_PRIVS`, which prevents it and its descendants from
/// gaining rights by executing a program.
fn install_filter(
    thread: u32,
    scratch: usize,
    call: impl Fn(libc::c_long, [usize; 6]) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let code = filter::program();
    // `struct sock_fprog`, followed by the instructions to which it points.
    let mut text = ((code.len() / 8) as u64).to_ne_bytes().to_vec();
    text.extend((scratch + 16).to_ne_bytes());
    text.extend(code);
    raw::write_memory(thread, scratch, &text)?;
    let all_threads = libc::SECCOMP_FILTER_FLAG_TSYNC as usize;
    let set = [libc::SECCOMP_SET_MODE_FILTER as usize, all_threads, scratch, 0, 0, 0];
    let install = || match call(libc::SYS_seccomp, set)? {
        0 => Ok(()),
        // A positive result is the number of a thread that has another filter.
        _ => Err(Errno::BUSY),
    };
    match install() {
        Err(Errno::ACCESS) => {
            call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0])?;
            install()
        }
        other => other,
    }
}
