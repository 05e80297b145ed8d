//! Numbers of methods, from their names.

/// Number of a method: the hash of its name (FNV-1a, 32 bits). A server with two names of one number does not
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(pub u32);

impl Method {
    /// Computes the number of a name, also at compile time: `const GET: Method = Method::named("kv.get");`
    pub const fn named(name: &str) -> Method {
        let bytes = name.as_bytes();
        let mut hash: u32 = 0x811c_9dc5;
        let mut index = 0;
        while index < bytes.len() {
            hash = (hash ^ bytes[index] as u32).wrapping_mul(0x0100_0193);
            index += 1;
        }
        Method(hash)
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
