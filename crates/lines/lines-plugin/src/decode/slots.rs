//! Number of micro-operations of an instruction.
//!
//! A micro-operation is counted if it takes a slot of the core's issue width and of its reorder buffer (the fused
//! domain). A load or store that is fused with another operation therefore takes no extra slot. The counts approximate
//! the tables for Zen 2, Zen 3 and Ice Lake in Agner Fog, Instruction tables (2022). If the three processors differ,
//! the lowest count is used. On all three, most instructions take one slot.

use iced_x86::{Instruction as Native, Mnemonic, OpKind, Register};
use unrack_lines::instruction::MemoryUse;

/// Returns the number of issue slots that an instruction takes, which is at least 1.
pub(super) fn slots(native: &Native, memory: MemoryUse, is_atomic: bool) -> u8 {
    use Mnemonic::*;
    match native.mnemonic() {
        Cmpxchg8b | Cmpxchg16b => 18,
        _ if is_atomic => 4,
        Cpuid => 40,
        Syscall | Sysenter => 40,
        Rdtsc | Rdtscp => 30,
        Xgetbv => 7,
        Xsave | Xsavec | Xrstor | Fxsave | Fxrstor => 100,
        Mfence => 3,
        Div | Idiv => 2,
        Mul | Imul if is_wide_product(native) => 2,
        Xchg => 2,
        Cmpxchg => 5,
        Xadd => 4,
        Shld | Shrd => 3,
        Leave | Call | Ret => 2,
        Enter => 12,
        Push | Pop if native.op_kind(0) != OpKind::Register => 2,
        Pushfq => 3,
        Popfq => 10,
        Bt | Bts | Btr | Btc if memory != MemoryUse::None => 5,
        Bts | Btr | Btc => 2,
        Lodsb | Lodsw | Lodsd | Lodsq => 2,
        Stosb | Stosw | Stosd | Stosq => 3,
        Scasb | Scasw | Scasd | Scasq => 3,
        Movsb | Movsw | Movsq => 5,
        Cmpsb | Cmpsw | Cmpsq => 5,
        Haddps | Haddpd | Hsubps | Hsubpd | Vhaddps | Vhaddpd | Vhsubps | Vhsubpd => 3,
        Phaddw | Phaddd | Vphaddw | Vphaddd => 3,
        Dpps | Vdpps => 6,
        Cvtsi2sd | Cvtsi2ss | Vcvtsi2sd | Vcvtsi2ss => 2,
        Cvtsd2si | Cvttsd2si | Cvtss2si | Cvttss2si | Vcvttsd2si | Vcvttss2si => 2,
        Ptest | Vptest | Pcmpistri | Vpcmpistri => 3,
        Pextrb | Pextrw | Pextrd | Pextrq | Pinsrb | Pinsrw | Pinsrd | Pinsrq => 2,
        Fsin | Fcos | Fsincos | Fptan | Fpatan | Fyl2x | F2xm1 => 60,
        Fprem | Fprem1 => 25,
        _ if is_gather(native) => 8 + 3 * gathered(native),
        // One for the arithmetic with its load, and one for the store.
        _ if memory == MemoryUse::Modify => 2,
        _ => 1,
    }
}

/// Returns whether an instruction is a multiplication that writes its product to two registers.
fn is_wide_product(native: &Native) -> bool {
    native.op_count() == 1
}

fn is_gather(native: &Native) -> bool {
    native.memory_index().is_vector_register()
}

/// Returns the number of elements that a gather instruction loads.
fn gathered(native: &Native) -> u8 {
    let index: Register = native.memory_index();
    let wide = native.memory_size().element_size().max(4);
    u8::try_from(index.size() / wide).unwrap_or(16)
}
