#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| unrack_mutate::targets::listing(bytes));
