//! Plugin for QEMU's user mode. It records the loads and stores of an unmodified program.
//!
//! | module | job |
//! |---|---|
//! | [`qemu`] | functions of QEMU that a plugin calls |
//! | [`callbacks`] | functions that QEMU calls |
//! | [`decode`], [`code`] | translated blocks, as the core model represents them |
//! | [`events`], [`sizes`] | events that the callbacks store: executions of blocks, and accesses |
//! | [`thread`], [`predictor`] | conversion of events to accesses to lines, mispredicted branches, and windows |
//! | [`sampling`], [`recorder`] | selection of the recorded windows, and the file that contains them |
//! | [`process`], [`caches`], [`mappings`], [`summary_file`] | state that the threads share |
//! | [`exec`], [`guest`] | programs that the program starts |
//! | [`settings`] | arguments of the plugin |
//! | [`heap`] | allocator settings, so that QEMU does not use up mappings that the program needs |
//!
//! The models of caches and core are in `unrack-lines` (docs/decisions/0018-lines.md).

mod caches;
mod callbacks;
mod code;
mod decode;
mod events;
mod exec;
mod guest;
mod heap;
mod mappings;
mod predictor;
mod process;
mod qemu;
mod recorder;
mod sampling;
mod settings;
mod sizes;
mod summary_file;
mod thread;

use process::ProcessState;
use qemu::{Info, Qemu};
use settings::PluginSettings;
use std::ffi::{CStr, c_char, c_int};

/// Version of QEMU's plugin interface for which this plugin is written.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = qemu::VERSION;

/// Starts the plugin. Returns 0 on success. On failure, it prints a message on standard error and returns another
/// number, after which QEMU ends.
///
/// # Safety
/// Only QEMU may call this, with the arguments that its plugin interface specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(
    id: qemu::PluginId,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a description that is valid during this call, and `count` strings.
    let started = unsafe {
        let arguments = (0..count.max(0) as usize).map(|index| CStr::from_ptr(*arguments.add(index)));
        start(id, &*info, arguments)
    };
    match started {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("unrack: the program cannot be recorded: {why}");
            1
        }
    }
}

fn start<'a>(
    id: qemu::PluginId,
    info: &Info,
    arguments: impl Iterator<Item = &'a CStr>,
) -> Result<(), String> {
    // SAFETY: QEMU passes the name of its target as a string that ends in NUL.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    if target != c"x86_64" || info.is_system_emulation {
        return Err("this QEMU does not run programs for x86-64: use qemu-x86_64".into());
    }
    let qemu = Qemu::find().map_err(|name| format!("this QEMU lacks {name}: use QEMU 7.2 to 8.2"))?;
    let arguments: Result<Vec<&str>, _> = arguments.map(CStr::to_str).collect();
    heap::prepare();
    let settings = PluginSettings::parse(arguments.map_err(|why| why.to_string())?.into_iter())?;
    let program = exec::own_program().unwrap_or_default();
    let shared = ProcessState::new(settings, program)?;
    callbacks::begin(id, qemu, shared);
    Ok(())
}
