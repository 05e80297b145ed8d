//! Numbers of methods, from their names.

use unrack_basis::fnv_1a_32;

/// Number of a method: the hash of its name (FNV-1a, 32 bits). A server with two names of one number does not
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(pub u32);

impl Method {
    /// Computes the number of a name, also at compile time: `const GET: Method = Method::named("kv.get");`
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
