//! Messages from /dev/cuse hold data of programs: any bytes are parsed or refused, and the data of an ioctl lie within the message.

#![no_main]

#[allow(dead_code, reason = "the server uses all of it")]
#[path = "../../frontends/cuse/src/fuse.rs"]
mod fuse;

use fuse::{Message, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some((_, Message::Ioctl(ioctl))) = parse(data) {
        let message = data.as_ptr_range();
        let input = ioctl.input.as_ptr_range();
        assert!(message.start <= input.start && input.end <= message.end);
    }
});
