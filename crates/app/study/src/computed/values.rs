//! Values by name, as figures that are computed and figures of programs give them.

use std::collections::BTreeMap;

/// Values by the names that studies' files use.
pub type Computed = BTreeMap<String, f64>;
