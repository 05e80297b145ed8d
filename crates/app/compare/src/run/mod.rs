//! One run of a program with part of its memory remote, or the same for a process that already runs.

pub(crate) mod answer;
pub(crate) mod asked;
pub(crate) mod borrow;
pub(crate) mod question;
