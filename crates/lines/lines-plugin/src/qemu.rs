//! Functions of QEMU that a plugin calls, from version 1 of the plugin interface (`qemu-plugin.h`, QEMU 4.2 to 8.2).
//!
//! The functions are looked up by name when the plugin is loaded. Therefore a QEMU that lacks one of them is rejected
//! with a message, instead of failing at the first call. The lookup also allows the unit tests to run without QEMU.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Version of the plugin interface.
pub(crate) const VERSION: c_int = 1;
/// `QEMU_PLUGIN_CB_NO_REGS`: the callback neither reads nor writes the guest's registers.
const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`: the callback is called for both loads and stores.
const LOADS_AND_STORES: c_int = 3;

/// Identifier that QEMU assigns to a plugin.
pub(crate) type PluginId = u64;
/// QEMU's opaque description of an access. It is the same for each execution of the same instruction.
pub(crate) type AccessInfo = u32;

/// Opaque translation block.
#[repr(C)]
pub(crate) struct Tb {
    _opaque: [u8; 0],
}

/// Opaque instruction of a translation block.
#[repr(C)]
pub(crate) struct Insn {
    _opaque: [u8; 0],
}

/// Information about QEMU that QEMU passes to `qemu_plugin_install`: the first fields of `qemu_info_t`.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) target_name: *const c_char,
    pub(crate) minimum_version: c_int,
    pub(crate) current_version: c_int,
    pub(crate) is_system_emulation: bool,
}

pub(crate) type ThreadCallback = extern "C" fn(PluginId, c_uint);
pub(crate) type OfTranslation = extern "C" fn(PluginId, *mut Tb);
pub(crate) type OfBlock = extern "C" fn(c_uint, *mut c_void);
pub(crate) type OfAccess = extern "C" fn(c_uint, AccessInfo, u64, *mut c_void);
pub(crate) type OfSystemCall = extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type OfReturn = extern "C" fn(PluginId, c_uint, i64, i64);
pub(crate) type OfExit = extern "C" fn(PluginId, *mut c_void);

/// Declares the functions of QEMU that are looked up. Each has the name that it has in QEMU, without the prefix
/// `qemu_plugin_`.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Pointers to functions of QEMU, named without the prefix `qemu_plugin_`.
        pub(crate) struct Qemu {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Qemu {
            /// Looks up the functions among the symbols of this process.
            ///
            /// # Errors
            /// The name of the first function that is missing.
            pub(crate) fn find() -> Result<Qemu, &'static str> {
                $(
                    let name = concat!("qemu_plugin_", stringify!($name), "\0");
                    let found = address(name).ok_or(concat!("qemu_plugin_", stringify!($name)))?;
                    // SAFETY: version 1 of the interface declares a function of this name with this type.
                    let $name = unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
                    };
                )*
                Ok(Qemu { $($name),* })
            }
        }
    };
}

functions! {
    register_vcpu_init_cb: fn(PluginId, ThreadCallback);
    register_vcpu_exit_cb: fn(PluginId, ThreadCallback);
    register_vcpu_tb_trans_cb: fn(PluginId, OfTranslation);
    register_vcpu_tb_exec_cb: fn(*mut Tb, OfBlock, c_int, *mut c_void);
    register_vcpu_mem_cb: fn(*mut Insn, OfAccess, c_int, c_int, *mut c_void);
    register_vcpu_syscall_cb: fn(PluginId, OfSystemCall);
    register_vcpu_syscall_ret_cb: fn(PluginId, OfReturn);
    register_atexit_cb: fn(PluginId, OfExit, *mut c_void);
    tb_n_insns: fn(*const Tb) -> usize;
    tb_get_insn: fn(*const Tb, usize) -> *mut Insn;
    insn_data: fn(*const Insn) -> *const c_void;
    insn_size: fn(*const Insn) -> usize;
    insn_vaddr: fn(*const Insn) -> u64;
    insn_symbol: fn(*const Insn) -> *const c_char;
    mem_size_shift: fn(AccessInfo) -> c_uint;
    mem_is_store: fn(AccessInfo) -> bool;
}

fn address(name: &str) -> Option<*mut c_void> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("the macro ends each name with NUL");
    // SAFETY: the name ends in NUL, and `RTLD_DEFAULT` is a valid handle.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Callbacks that the plugin registers once, when it starts.
pub(crate) struct Callbacks {
    pub(crate) thread_started: ThreadCallback,
    pub(crate) thread_ended: ThreadCallback,
    pub(crate) translated: OfTranslation,
    pub(crate) system_call: OfSystemCall,
    pub(crate) system_call_returned: OfReturn,
    pub(crate) ended: OfExit,
}

impl Qemu {
    /// Registers the callbacks.
    pub(crate) fn register(&self, id: PluginId, callbacks: &Callbacks) {
        // SAFETY: `id` is the identifier that QEMU assigned to this plugin, and each callback has the type that the
        // interface requires.
        unsafe {
            (self.register_vcpu_init_cb)(id, callbacks.thread_started);
            (self.register_vcpu_exit_cb)(id, callbacks.thread_ended);
            (self.register_vcpu_tb_trans_cb)(id, callbacks.translated);
            (self.register_vcpu_syscall_cb)(id, callbacks.system_call);
            (self.register_vcpu_syscall_ret_cb)(id, callbacks.system_call_returned);
            (self.register_atexit_cb)(id, callbacks.ended, std::ptr::null_mut());
        }
    }

    /// Returns the number of bytes that an access with this description loads or stores, and whether the access is a
    /// store.
    pub(crate) fn access(&self, info: AccessInfo) -> (u8, bool) {
        // SAFETY: both functions accept any value that QEMU has passed to a callback.
        let (shift, is_store) = unsafe { ((self.mem_size_shift)(info), (self.mem_is_store)(info)) };
        (1u8.checked_shl(shift).unwrap_or(64), is_store)
    }

    /// Returns the block that QEMU is translating.
    ///
    /// # Safety
    /// `tb` must be the pointer that QEMU passed to the translation callback that is running.
    pub(crate) unsafe fn translation(&self, tb: *mut Tb) -> TranslatedBlock<'_> {
        TranslatedBlock { qemu: self, tb }
    }
}

/// Block that QEMU is translating.
pub(crate) struct TranslatedBlock<'a> {
    qemu: &'a Qemu,
    tb: *mut Tb,
}

impl<'a> TranslatedBlock<'a> {
    /// Returns the instructions of the block, in order.
    pub(crate) fn instructions(&self) -> impl Iterator<Item = Translated<'a>> + use<'a> {
        let (qemu, tb) = (self.qemu, self.tb);
        // SAFETY: `tb` is valid while the translation callback runs, by the contract of `Qemu::translation`.
        let count = unsafe { (qemu.tb_n_insns)(tb) };
        (0..count).map(move |index| {
            // SAFETY: `tb` is valid while the translation callback runs, and the index is below the number of
            // instructions.
            Translated { qemu, insn: unsafe { (qemu.tb_get_insn)(tb, index) } }
        })
    }

    /// Registers `callback`, which QEMU calls with `data` at each execution of the block.
    pub(crate) fn at_execution(&self, callback: OfBlock, data: *mut c_void) {
        // SAFETY: `tb` is valid, by the contract of `Qemu::translation`.
        unsafe { (self.qemu.register_vcpu_tb_exec_cb)(self.tb, callback, NO_REGISTERS, data) }
    }
}

/// Instruction that QEMU is translating.
pub(crate) struct Translated<'a> {
    qemu: &'a Qemu,
    insn: *mut Insn,
}

impl Translated<'_> {
    /// Returns the guest address of the instruction.
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: the instruction is valid, by the contract of `Qemu::translation`.
        unsafe { (self.qemu.insn_vaddr)(self.insn) }
    }

    /// Returns the bytes of the instruction.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: QEMU returns a pointer to as many bytes as it reports, and they are valid while the callback runs.
        unsafe {
            let data = (self.qemu.insn_data)(self.insn).cast();
            std::slice::from_raw_parts(data, (self.qemu.insn_size)(self.insn))
        }
    }

    /// Returns the name of the function that contains the instruction, or `None` if the program's symbol table does not
    /// name it.
    pub(crate) fn symbol(&self) -> Option<&CStr> {
        // SAFETY: QEMU returns null, or a string that remains valid until the process ends.
        unsafe {
            let name = (self.qemu.insn_symbol)(self.insn);
            (!name.is_null()).then(|| CStr::from_ptr(name)).filter(|name| !name.is_empty())
        }
    }

    /// Registers `callback`, which QEMU calls with `data` at each load and store of the instruction.
    pub(crate) fn at_access(&self, callback: OfAccess, data: *mut c_void) {
        // SAFETY: the instruction is valid, by the contract of `Qemu::translation`.
        unsafe { (self.qemu.register_vcpu_mem_cb)(self.insn, callback, NO_REGISTERS, LOADS_AND_STORES, data) }
    }
}
