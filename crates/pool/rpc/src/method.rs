//! Numbers of methods, computed from their names.

use unrack_basis::fnv_1a_32;

/// Number of a method: the 32-bit FNV-1a hash of its name. A server refuses to start if two of its methods have the
/// same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(pub u32);

impl Method {
    /// Computes the number of a name, also at compile time, for example `const GET: Method = Method::named("kv.get");`.
    pub const fn named(name: &str) -> Method {
        Method(fnv_1a_32(name.as_bytes()))
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Method {
        Method::named(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with values that the authors of FNV publish.
    #[test]
    fn names_hash_as_published() {
        assert_eq!(Method::named("").0, 0x811c_9dc5);
        assert_eq!(Method::named("a").0, 0xe40c_292c);
        assert_eq!(Method::named("foobar").0, 0xbf9c_f968);
    }
}
