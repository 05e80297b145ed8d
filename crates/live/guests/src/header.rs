//! Header of an NVDIMM that makes each guest's kernel offer it as `/dev/dax0.0`, without a tool in the guest.
//!
//! `ndctl create-namespace --mode=devdax --map=mem` writes the same block, at 4 KiB into the memory, and data begin at
//! 2 MiB (`struct nd_pfn_sb` of the kernel's `drivers/nvdimm/pfn.h`, version 1.4). It is in memory before the first
//! guest boots, so no guest writes to it, and data are at the same offset in all. Without a label area the whole DIMM is
//! one namespace, whose number is nil.

/// Size of the header and alignment of the device, in bytes: a huge page.
pub(crate) const DATA_OFFSET: u64 = 2 << 20;
/// Offset of the block in the header, in bytes.
pub(crate) const BLOCK_OFFSET: u64 = 4096;

const SIGNATURE: &[u8; 16] = b"NVDIMM_DAX_INFO\0";
/// Identity of the device: any but nil, and always the same.
const UUID: &[u8; 16] = b"unrack memory\0\0\x01";
/// Bytes of a page, and of the kernel's record of one.
const PAGE: u64 = 4096;
const PAGE_RECORD: u16 = 64;
/// Place of the kernel's records of pages: in the guest's own memory.
const RECORDS_IN_MEMORY: u32 = 1;

/// Returns the block of a device with `data` bytes behind its header.
pub(crate) fn block(data: u64) -> [u8; 4096] {
    block_with(UUID, data)
}

fn block_with(uuid: &[u8; 16], data: u64) -> [u8; 4096] {
    let mut block = [0; 4096];
    let mut put = |offset: usize, bytes: &[u8]| block[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0x00, SIGNATURE);
    put(0x10, uuid);
    put(0x34, &1u16.to_le_bytes());
    put(0x36, &4u16.to_le_bytes());
    put(0x38, &DATA_OFFSET.to_le_bytes());
    put(0x40, &(data / PAGE).to_le_bytes());
    put(0x48, &RECORDS_IN_MEMORY.to_le_bytes());
    put(0x54, &(DATA_OFFSET as u32).to_le_bytes());
    put(0x58, &(PAGE as u32).to_le_bytes());
    put(0x5c, &PAGE_RECORD.to_le_bytes());
    let sum = fletcher64(&block);
    block[0xff8..].copy_from_slice(&sum.to_le_bytes());
    block
}

/// Returns the kernel's checksum of a block (`nd_fletcher64`).
fn fletcher64(block: &[u8]) -> u64 {
    let (mut low, mut high) = (0u32, 0u64);
    for word in block.chunks_exact(4) {
        low = low.wrapping_add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        high = high.wrapping_add(u64::from(low));
    }
    high << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_that_of_ndctl() {
        // Written by ndctl 76 to a DIMM of 256 MiB.
        let uuid = 0x473b_493a_01b8_41b4_a66b_0da7_4bff_0a12_u128.to_be_bytes();
        let block = block_with(&uuid, 254 << 20);
        assert_eq!(&block[0x30..0x3c], [0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0x20, 0]);
        assert_eq!(&block[0x40..0x44], [0, 0xfe, 0, 0]);
        assert_eq!(block[0xff8..], [0xa5, 0xae, 0x3a, 0x7f, 0x56, 0x77, 0xfe, 0x36]);
    }
}
