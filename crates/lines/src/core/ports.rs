//! Execution ports: operations of one kind that begin in a cycle.
//!
//! Departure: ports bound the rate of dispatch, over some cycles, in place of each operation's beginning. Where operations of a
//! kind come faster than their ports take them for long, the scheduler fills and dispatch is as slow; shorter bursts wait in it
//! without effect.

use super::parameters::{CoreParameters, Ports};
use super::ring::Ring;
use super::time::Time;
use crate::instruction::{Instruction, Memory, Operation};

/// Cycles over which a rate is bound: those in which a scheduler of some hundred entries fills.
const CYCLES: usize = 16;

/// Kind of operation by the ports that take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No port.
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
    /// Returns whether operations of this kind are of vectors.
    #[inline(always)]
    pub(super) fn is_vector(self) -> bool {
        matches!(self, Kind::Vector | Kind::FloatAdd | Kind::FloatMultiply | Kind::FloatDivide)
    }

    /// Returns the kind of an instruction's operation.
    pub(super) fn new(instruction: &Instruction, is_move: bool) -> Kind {
        match instruction.operation {
            _ if is_move && instruction.memory != Memory::None => Kind::None,
            Operation::Nothing | Operation::SystemCall => Kind::None,
            Operation::Integer | Operation::Serializing => Kind::Integer,
            Operation::Multiply => Kind::Multiply,
            Operation::Divide32 | Operation::Divide64 => Kind::Divide,
            Operation::Branch => Kind::Branch,
            Operation::Vector | Operation::Cross => Kind::Vector,
            Operation::FloatAdd => Kind::FloatAdd,
            Operation::FloatMultiply => Kind::FloatMultiply,
            Operation::FloatDivide => Kind::FloatDivide,
        }
    }
}

/// Rate of one kind.
struct Rate<T> {
    last: Ring<T>,
    cycles: f32,
}

impl<T: Time> Rate<T> {
    /// Creates a rate of so many operations in so many cycles each.
    fn new(ports: usize, cycles: f32) -> Rate<T> {
        Rate { last: Ring::new(ports * CYCLES), cycles: cycles * CYCLES as f32 }
    }

    #[inline(always)]
    fn bound(&mut self, dispatch: T) -> T {
        let dispatch = dispatch.later(self.last.oldest(0).after(self.cycles));
        self.last.push(dispatch);
        dispatch
    }
}

/// Rates of all kinds of a core.
pub(super) struct PortRates<T> {
    /// By [`Kind`] but none; the rates of arithmetic are also those of every kind that shares its ports.
    kinds: [Rate<T>; 8],
    loads: Rate<T>,
    stores: Rate<T>,
}

impl<T: Time> PortRates<T> {
    pub(super) fn new(parameters: &CoreParameters) -> PortRates<T> {
        let Ports { integer, multiply, branch, vector, float_add, float_multiply, load, store } =
            parameters.ports;
        let divider = |interval: f32| Rate::new(1, interval);
        PortRates {
            kinds: [
                Rate::new(integer, 1.0),
                Rate::new(multiply, 1.0),
                divider(parameters.divide_interval),
                Rate::new(branch, 1.0),
                Rate::new(vector, 1.0),
                Rate::new(float_add, 1.0),
                Rate::new(float_multiply, 1.0),
                divider(parameters.float_divide_interval),
            ],
            loads: Rate::new(load, 1.0),
            stores: Rate::new(store, 1.0),
        }
    }

    /// Returns when the operation, loads and stores of an instruction can be dispatched.
    #[inline(always)]
    pub(super) fn bound(&mut self, mut dispatch: T, kind: Kind, loads: usize, stores: usize) -> T {
        for _ in 0..loads {
            dispatch = self.loads.bound(dispatch);
        }
        for _ in 0..stores {
            dispatch = self.stores.bound(dispatch);
        }
        if kind == Kind::None {
            return dispatch;
        }
        let own = &mut self.kinds[kind as usize - 1];
        dispatch = own.bound(dispatch);
        match kind {
            // Multipliers, dividers and branches sit at ports of the integer units, floating-point units at those of vectors.
            Kind::Multiply | Kind::Divide | Kind::Branch => self.kinds[0].bound(dispatch),
            Kind::FloatAdd | Kind::FloatMultiply | Kind::FloatDivide => self.kinds[4].bound(dispatch),
            _ => dispatch,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Rate<T>> {
        self.kinds.iter_mut().chain([&mut self.loads, &mut self.stores])
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.all().for_each(|rate| rate.last.rebase(base));
    }

    pub(super) fn reset(&mut self) {
        self.all().for_each(|rate| rate.last.reset(T::START.after(-rate.cycles)));
    }
}
