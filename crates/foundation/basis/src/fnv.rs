//! FNV-1a (Fowler, Noll and Vo), a hash for short texts. It is not safe against adversaries.

/// Defines the hash of one width, given its offset basis and its prime.
macro_rules! fnv_1a {
    ($state:ident, $function:ident, $word:ident, $basis:literal, $prime:literal) => {
        #[doc = concat!("State of FNV-1a with the width of `", stringify!($word), "`, for bytes that come in parts.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $state($word);

        impl $state {
            /// Initial state: the offset basis.
            pub const EMPTY: $state = $state($basis);

            /// Returns the state after additionally hashing these bytes.
            #[inline]
            pub const fn with(self, mut bytes: &[u8]) -> $state {
                let mut hash = self.0;
                while let [first, rest @ ..] = bytes {
                    hash = (hash ^ *first as $word).wrapping_mul($prime);
                    bytes = rest;
                }
                $state(hash)
            }

            /// Returns the hash of all bytes so far.
            #[inline]
            pub const fn value(self) -> $word {
                self.0
            }
        }

        #[doc = concat!("Returns the FNV-1a hash of these bytes, as `", stringify!($word), "`.")]
        #[inline]
        pub const fn $function(bytes: &[u8]) -> $word {
            $state::EMPTY.with(bytes).value()
        }
    };
}

fnv_1a!(Fnv1a, fnv_1a, u64, 0xcbf2_9ce4_8422_2325, 0x0000_0100_0000_01b3);
fnv_1a!(Fnv1a32, fnv_1a_32, u32, 0x811c_9dc5, 0x0100_0193);

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts and hashes of the authors' own test program, `test_fnv.c`.
    const PUBLISHED: [(&str, u32, u64); 7] = [
        ("", 0x811c_9dc5, 0xcbf2_9ce4_8422_2325),
        ("a", 0xe40c_292c, 0xaf63_dc4c_8601_ec8c),
        ("b", 0xe70c_2de5, 0xaf63_df4c_8601_f1a5),
        ("c", 0xe60c_2c52, 0xaf63_de4c_8601_eff2),
        ("fo", 0x6222_e842, 0x0898_5907_b541_d342),
        ("foo", 0xa9f3_7ed7, 0xdcb2_7518_fed9_d577),
        ("foobar", 0xbf9c_f968, 0x8594_4171_f739_67e8),
    ];

    #[test]
    fn hashes_are_those_that_the_authors_publish() {
        for (text, short, long) in PUBLISHED {
            assert_eq!((fnv_1a_32(text.as_bytes()), fnv_1a(text.as_bytes())), (short, long), "{text}");
        }
    }

    #[test]
    fn parts_hash_as_the_whole() {
        let text = b"foobar";
        for at in 0..=text.len() {
            let (head, tail) = text.split_at(at);
            assert_eq!(Fnv1a::EMPTY.with(head).with(tail).value(), fnv_1a(text));
            assert_eq!(Fnv1a32::EMPTY.with(head).with(tail).value(), fnv_1a_32(text));
        }
    }
}
