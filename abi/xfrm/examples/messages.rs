//! Writes two requests of `ip xfrm` into a datagram, and reads them: `cargo run -p gantry-abi-xfrm --example messages`

use gantry_abi_xfrm::constants::flag;
use gantry_abi_xfrm::{Datagram, Error, KeyVisibility, Message, SaId, SaRef, frames};

fn main() -> Result<(), Error> {
    let id = SaId { destination: [192, 0, 2, 1].into(), spi: 0x1000, protocol: 50 };
    let mut datagram = Datagram::new();
    datagram.push(
        &Message::GetSa(SaRef { id, source: None, mark: None, interface_id: 0, unknown: Vec::new() }),
        0,
        1,
        0,
        KeyVisibility::Zeros,
    );
    datagram.push(&Message::FlushSa(50), flag::ACK, 2, 0, KeyVisibility::Zeros);
    for frame in frames(datagram.as_bytes()) {
        println!("{}: {:?}", frame.header.sequence, Message::parse(&frame)?);
    }
    Ok(())
}
