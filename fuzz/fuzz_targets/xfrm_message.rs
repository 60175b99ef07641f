//! Netlink datagrams from programs: any bytes are parsed or refused, and a parsed message survives writing and parsing.

#![no_main]

use gantry_abi_xfrm::preload::PreloadMessage;
use gantry_abi_xfrm::{Datagram, KeyVisibility, Message, frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for frame in frames(data) {
        let header = frame.header;
        let mut datagram = Datagram::new();
        if let Ok(message) = Message::parse(&frame) {
            datagram.push(&message, header.flags, header.sequence, header.port, KeyVisibility::Shown);
            let again = frames(datagram.as_bytes()).next().expect("the written message can be parsed");
            assert_eq!((again.header, Message::parse(&again)), (header, Ok(message)));
        } else if let Ok(message) = PreloadMessage::parse(&frame) {
            datagram.push_preload_message(&message);
            let again = frames(datagram.as_bytes()).next().expect("the written message can be parsed");
            assert_eq!(PreloadMessage::parse(&again), Ok(message));
        }
        datagram.clear();
        datagram.acknowledge(&frame, header.port, 22, None);
        assert_eq!(datagram.len(), 36);
    }
});
