//! Check of a prediction by the kernel's own swap.

pub(crate) mod answer;
pub(crate) mod cost;
pub(crate) mod question;
mod under_swap;
