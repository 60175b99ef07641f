//! Instructions of classic BPF (linux/bpf_common.h).

pub(crate) type Instruction = libc::sock_filter;

/// Loads into the accumulator: a word, half a word, or a byte, at an offset from the start or from the index; the packet's length.
pub(crate) const LOAD: u16 = 0x20;
pub(crate) const LOAD_HALF: u16 = 0x28;
pub(crate) const LOAD_BYTE: u16 = 0x30;
pub(crate) const LOAD_AT: u16 = 0x40;
pub(crate) const LOAD_HALF_AT: u16 = 0x48;
pub(crate) const LOAD_BYTE_AT: u16 = 0x50;
pub(crate) const LOAD_LENGTH: u16 = 0x80;
/// Loads into the index: a number, the length of the IPv4 header at an offset, and the accumulator.
pub(crate) const LOAD_INDEX: u16 = 0x01;
pub(crate) const LOAD_IPV4_LENGTH: u16 = 0xB1;
pub(crate) const TO_INDEX: u16 = 0x07;
/// Arithmetic with a number.
pub(crate) const ADD: u16 = 0x04;
pub(crate) const AND: u16 = 0x54;
pub(crate) const MODULO: u16 = 0x94;
/// Jumps: always, and after a comparison of the accumulator with a number or with the index.
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_IF_EQUAL: u16 = 0x15;
pub(crate) const JUMP_IF_ABOVE: u16 = 0x25;
pub(crate) const JUMP_IF_ABOVE_INDEX: u16 = 0x2D;
pub(crate) const JUMP_IF_AT_LEAST: u16 = 0x35;
pub(crate) const JUMP_IF_SET: u16 = 0x45;
/// Ends the program with a number, or with the accumulator.
pub(crate) const RETURN: u16 = 0x06;
pub(crate) const RETURN_ACCUMULATOR: u16 = 0x16;

/// Builds an instruction. A jump skips `jt` instructions if its comparison holds, and `jf` instructions if it does not.
pub(crate) const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}
