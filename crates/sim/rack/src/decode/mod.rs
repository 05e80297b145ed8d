//! Decodes a tree into typed values through serde, and reports every problem at its place.
//!
//! A type needs `Deserialize` and, for its defaults, `#[serde(default)]`. Unknown keys are rejected even if the type
//! lacks `deny_unknown_fields`. Quantities are written as text with a unit. If a file has a bare number instead, the
//! parser of the quantity rejects it with its message about the missing unit.

mod fault;
mod reader;

use serde::de::DeserializeOwned;

use crate::problem::ScenarioProblem;
use crate::tree::Node;

/// Largest number of problems reported for one table, because longer lists do not help the user.
const MOST_PROBLEMS: usize = 20;

/// Decodes `node`, which is at `path`, as `T`. If that fails, it reports every problem of the node and returns `None`.
///
/// serde stops at the first problem. To find the others, this function removes the faulty entry and decodes the rest
/// again, until it finds no further problem.
pub(crate) fn decode<T: DeserializeOwned>(
    node: &Node,
    path: &str,
    problems: &mut Vec<ScenarioProblem>,
) -> Option<T> {
    decode_beside(node, path, &[], problems)
}

/// Decodes a table whose keys `beside` are read separately. These keys only appear as suggestions in messages.
pub(crate) fn decode_beside<T: DeserializeOwned>(
    node: &Node,
    path: &str,
    beside: &[&str],
    problems: &mut Vec<ScenarioProblem>,
) -> Option<T> {
    let mut node = node.clone();
    for found in 0..MOST_PROBLEMS {
        match T::deserialize(reader::Reader { node: &node, beside }) {
            Ok(value) => return (found == 0).then_some(value),
            // The key may be missing only because an earlier round removed it.
            Err(fault) if fault.missing && found > 0 => return None,
            Err(fault) => {
                let removed = node.remove(&fault.keys());
                problems.push(fault.problem(path, node.place));
                if !removed {
                    return None;
                }
            }
        }
    }
    None
}
