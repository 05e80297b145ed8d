//! Header of an NVDIMM. It makes each guest's kernel offer the NVDIMM as `/dev/dax0.0` without a tool in the guest.
//!
//! `ndctl create-namespace --mode=devdax --map=mem` writes the same block, at 4 KiB into the memory, where data begin at 2 MiB (`struct
//! nd_pfn_sb` of the kernel's `drivers/nvdimm/pfn.h`, version 1.4). The block is in memory before the first guest boots. Therefore no guest
//! writes to it, and data are at the same offset in all guests. Without a label area, the whole DIMM is one namespace, whose number is nil.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes, transmute};

/// Size of the header and alignment of the device, in bytes: a huge page.
pub(crate) const DATA_OFFSET: u64 = 2 << 20;
/// Offset of the block in the header, in bytes.
pub(crate) const BLOCK_OFFSET: u64 = 4096;

const SIGNATURE: &[u8; 16] = b"NVDIMM_DAX_INFO\0";
/// UUID of the device. It must not be nil, and is always the same.
const UUID: &[u8; 16] = b"unrack memory\0\0\x01";
/// Bytes of a page, and of the kernel's record of a page.
const PAGE: u64 = 4096;
const PAGE_RECORD: u16 = 64;
/// Location of the kernel's page records: in the guest's private memory.
const RECORDS_IN_MEMORY: u32 = 1;

/// The block (`struct nd_pfn_sb`), with the kernel's order of fields.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Block {
    signature: [u8; 16],
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
    flags: U32,
    version_major: U16,
    version_minor: U16,
    data_offset: U64,
    pages: U64,
    /// Location of the kernel's page records.
    mode: U32,
    start_padding: U32,
    end_padding: U32,
    alignment: U32,
    page_bytes: U32,
    page_record_bytes: U16,
    padding: [u8; 3994],
    checksum: U64,
}

/// Returns the block of a device with `data` bytes after its header.
pub(crate) fn block(data: u64) -> [u8; 4096] {
    block_with(UUID, data)
}

fn block_with(uuid: &[u8; 16], data: u64) -> [u8; 4096] {
    let mut block = Block {
        signature: *SIGNATURE,
        uuid: *uuid,
        parent_uuid: [0; 16],
        flags: U32::ZERO,
        version_major: 1.into(),
        version_minor: 4.into(),
        data_offset: DATA_OFFSET.into(),
        pages: (data / PAGE).into(),
        mode: RECORDS_IN_MEMORY.into(),
        start_padding: U32::ZERO,
        end_padding: U32::ZERO,
        alignment: (DATA_OFFSET as u32).into(),
        page_bytes: (PAGE as u32).into(),
        page_record_bytes: PAGE_RECORD.into(),
        padding: [0; 3994],
        checksum: U64::ZERO,
    };
    block.checksum = fletcher64(block.as_bytes()).into();
    transmute!(block)
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
        // ndctl 76 wrote this block to a DIMM of 256 MiB.
        let uuid = 0x473b_493a_01b8_41b4_a66b_0da7_4bff_0a12_u128.to_be_bytes();
        let block = block_with(&uuid, 254 << 20);
        assert_eq!(&block[0x30..0x3c], [0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0x20, 0]);
        assert_eq!(&block[0x40..0x44], [0, 0xfe, 0, 0]);
        assert_eq!(block[0xff8..], [0xa5, 0xae, 0x3a, 0x7f, 0x56, 0x77, 0xfe, 0x36]);
    }
}
