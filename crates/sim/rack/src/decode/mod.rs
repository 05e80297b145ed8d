//! Decoding of a tree into typed values, by serde, with every problem at its place.
//!
//! A type needs `Deserialize` and, for its defaults, `#[serde(default)]`; unknown keys are refused whether or not it
//! has `deny_unknown_fields`. Units are written as text, and a bare number in place of text with a unit is refused by
//! the unit's own message.

mod fault;
mod reader;

use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::tree::Node;

/// Largest number of problems reported for one table; more are no help.
const MOST_PROBLEMS: usize = 20;

/// Reads `node`, found at `path`, as `T`; or reports everything that is wrong with it.
///
/// serde stops at the first problem. To find the others, the faulty entry is removed and the rest is read again, until
/// no further problem is found.
pub(crate) fn decode<T: DeserializeOwned>(node: &Node, path: &str, problems: &mut Vec<Problem>) -> Option<T> {
    decode_beside(node, path, &[], problems)
}

/// Decodes a table whose keys `beside` are read elsewhere: they are only suggested in messages.
pub(crate) fn decode_beside<T: DeserializeOwned>(
    node: &Node,
    path: &str,
    beside: &[&str],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let mut node = node.clone();
    for found in 0..MOST_PROBLEMS {
        match T::deserialize(reader::Reader { node: &node, beside }) {
            Ok(value) => return (found == 0).then_some(value),
            // Possibly missing because it was removed.
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
