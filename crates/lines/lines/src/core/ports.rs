//! Execution ports of the core model, which limit how many operations of one kind can begin per cycle.
//!
//! Departure: ports limit the rate at which operations are dispatched, averaged over some cycles. In a real core, they
//! limit when each operation begins. If operations of one kind arrive faster than their ports accept them for a long
//! time, the scheduler fills up and dispatch slows to the same rate. Shorter bursts wait in the scheduler without an
//! effect on dispatch.

use super::parameters::{CoreParameters, CorePorts};
use super::ring::Ring;
use super::time::LaneTime;
use crate::instruction::{Instruction, MemoryUse, OperationClass};

/// Number of turns over which the rate of dispatch to ports is averaged. A turn is one cycle, or more if the core also
/// executes another thread. A scheduler of some hundred entries fills up within this time.
const CYCLES: usize = 16;

/// Kind of operation, by the ports that execute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Operation that needs no port.
    None,
    Integer,
    Multiply,
    Divide,
    Branch,
    Vector,
    FloatAdd,
    FloatMultiply,
    FloatDivide,
}

impl Kind {
    /// Returns whether operations of this kind work on vectors.
    #[inline(always)]
    pub(super) fn is_vector(self) -> bool {
        matches!(self, Kind::Vector | Kind::FloatAdd | Kind::FloatMultiply | Kind::FloatDivide)
    }

    /// Returns the kind of an instruction's operation. `is_move` states whether the instruction only moves data between
    /// a register and memory.
    pub(super) fn new(instruction: &Instruction, is_move: bool) -> Kind {
        match instruction.operation {
            _ if is_move && instruction.memory != MemoryUse::None => Kind::None,
            OperationClass::Nothing | OperationClass::SystemCall => Kind::None,
            OperationClass::Integer | OperationClass::Serializing => Kind::Integer,
            OperationClass::Multiply => Kind::Multiply,
            OperationClass::Divide32 | OperationClass::Divide64 => Kind::Divide,
            OperationClass::Branch => Kind::Branch,
            OperationClass::Vector | OperationClass::Cross => Kind::Vector,
            OperationClass::FloatAdd => Kind::FloatAdd,
            OperationClass::FloatMultiply => Kind::FloatMultiply,
            OperationClass::FloatDivide => Kind::FloatDivide,
        }
    }
}

/// Limit of the rate at which operations of one kind are dispatched.
struct PortRate<T> {
    last: Ring<T>,
    cycles: f32,
}

impl<T: LaneTime> PortRate<T> {
    /// Creates a limit of `ports` operations per `cycles` cycles.
    fn new(ports: usize, cycles: f32) -> PortRate<T> {
        PortRate { last: Ring::new(ports * CYCLES), cycles: cycles * CYCLES as f32 }
    }

    #[inline(always)]
    fn bound(&mut self, dispatch: T) -> T {
        let dispatch = dispatch.later(self.last.oldest(0).after(self.cycles));
        self.last.push(dispatch);
        dispatch
    }
}

/// Limits of the rates at which operations of each kind are dispatched.
pub(super) struct PortRates<T> {
    /// Rate limits of operations by [`Kind`], except for `None`. The limits of integer and vector operations also apply
    /// to operations of other kinds that use the ports of integer or vector units.
    kinds: [PortRate<T>; 8],
    /// Limits of loads, of stores, of loads and stores together, of vector loads, and of vector stores.
    accesses: [PortRate<T>; 5],
}

impl<T: LaneTime> PortRates<T> {
    pub(super) fn new(parameters: &CoreParameters) -> PortRates<T> {
        let CorePorts { integer, multiply, branch, vector, float_add, float_multiply, .. } = parameters.ports;
        let CorePorts { load, store, memory, vector_load, vector_store, .. } = parameters.ports;
        let divider = |interval: f32| PortRate::new(1, interval);
        let turn = parameters.turn;
        PortRates {
            kinds: [
                PortRate::new(integer, turn),
                PortRate::new(multiply, turn),
                divider(parameters.divide_interval),
                PortRate::new(branch, turn),
                PortRate::new(vector, turn),
                PortRate::new(float_add, turn),
                PortRate::new(float_multiply, turn),
                divider(parameters.float_divide_interval),
            ],
            accesses: [load, store, memory, vector_load, vector_store]
                .map(|ports| PortRate::new(ports, turn)),
        }
    }

    /// Returns the time from which the ports accept the operation, the loads and the stores of an instruction, at the
    /// earliest `dispatch`.
    #[inline(always)]
    pub(super) fn bound(
        &mut self,
        mut dispatch: T,
        (kind, is_vector): (Kind, bool),
        loads: usize,
        stores: usize,
    ) -> T {
        let [load, store, memory, vector_load, vector_store] = &mut self.accesses;
        for (count, own, vector) in [(loads, load, vector_load), (stores, store, vector_store)] {
            for _ in 0..count {
                dispatch = memory.bound(own.bound(dispatch));
                if is_vector {
                    dispatch = vector.bound(dispatch);
                }
            }
        }
        if kind == Kind::None {
            return dispatch;
        }
        let own = &mut self.kinds[kind as usize - 1];
        dispatch = own.bound(dispatch);
        match kind {
            // Multipliers, dividers and branch units share ports with integer units; floating-point units share ports
            // with vector units.
            Kind::Multiply | Kind::Divide | Kind::Branch => self.kinds[0].bound(dispatch),
            Kind::FloatAdd | Kind::FloatMultiply | Kind::FloatDivide => self.kinds[4].bound(dispatch),
            _ => dispatch,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut PortRate<T>> {
        self.kinds.iter_mut().chain(&mut self.accesses)
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.all().for_each(|rate| rate.last.rebase(base));
    }

    pub(super) fn reset(&mut self) {
        self.all().for_each(|rate| rate.last.reset(T::START.after(-rate.cycles)));
    }
}
