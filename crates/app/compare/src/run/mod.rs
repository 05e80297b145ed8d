//! One run of a program with part of its memory remote, or of a process that is there already.

pub(crate) mod answer;
pub(crate) mod asked;
pub(crate) mod borrow;
pub(crate) mod question;
