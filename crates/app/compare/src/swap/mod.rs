//! Check of a predicted run time against a run under the kernel's swap.

pub(crate) mod answer;
pub(crate) mod cost;
pub(crate) mod question;
mod under_swap;
