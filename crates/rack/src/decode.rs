//! From a tree to typed values, by serde, with every problem at its place.
//!
//! A type needs `Deserialize` and, for its defaults, `#[serde(default)]`; keys it does not have are
//! refused whether or not it says `deny_unknown_fields`. Units are written as text, and a bare
//! number where text with a unit is needed is refused by the unit's own message.

mod fault;
mod reader;

use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::tree::Node;

/// More than this many problems in one table help nobody.
const MOST_PROBLEMS: usize = 20;

/// Reads `node`, found at `path`, as `T`; or says everything that is wrong with it.
///
/// serde stops at the first problem. To find the others, what is wrong is taken out and the rest
/// is read again, until nothing more can be told.
pub(crate) fn decode<T: DeserializeOwned>(node: &Node, path: &str, problems: &mut Vec<Problem>) -> Option<T> {
    decode_beside(node, path, &[], problems)
}

/// The same for a table of which somebody else reads the keys `beside`: they are keys to propose.
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
            // Missing, perhaps, because it was taken out.
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
