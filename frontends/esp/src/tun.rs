//! The TUN device: packets that the stack leads into the tunnel, and those that leave it.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use smallvec::{SmallVec, smallvec};

use crate::packet::offload::{HEADER, Offload};
use crate::sys;

/// What the stack may leave to the device (linux/if_tun.h): checksums, segments of TCP over IPv4 and IPv6 with marks of congestion, and
/// segments of UDP, which Linux knows from 6.2 on.
const CHECKSUM: u32 = 0x01;
const TCP: u32 = 0x02 | 0x04 | 0x08;
const UDP: u32 = 0x20 | 0x40;

/// The most that one read gives: a packet of IP, and the header before it.
pub(crate) const LARGEST: usize = HEADER + 65_535 + 40;

/// One queue of the device.
#[derive(Debug)]
pub(crate) struct Queue(File);

/// Opens a device with so many queues. It is gone when they are closed.
pub(crate) fn open(name: &str, queues: usize) -> io::Result<(String, Vec<Queue>)> {
    let mut name = name.to_owned();
    let open = || -> io::Result<Queue> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        name = sys::tun(&file, &name, queues > 1)?;
        sys::tun_offload(&file, HEADER, CHECKSUM | TCP | UDP)
            .or_else(|_| sys::tun_offload(&file, HEADER, CHECKSUM | TCP))?;
        Ok(Queue(file))
    };
    let all = std::iter::repeat_with(open).take(queues).collect::<io::Result<_>>()?;
    Ok((name, all))
}

impl Queue {
    /// Takes one packet out, into a buffer of [`LARGEST`] bytes: what the device says of it, and the packet. `None`: there is none.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<(Offload, &'b mut [u8])>> {
        loop {
            match (&self.0).read(buffer) {
                Ok(length) => {
                    let Some((header, packet)) = buffer[..length].split_first_chunk_mut() else { return Ok(None) };
                    // What was not offered does not come. If it does, the packet is left out: it is empty.
                    let offload = Offload::read(header);
                    let packet = if offload.is_some() { packet } else { &mut [] };
                    return Ok(Some((offload.unwrap_or_default(), packet)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the stack a packet, in pieces.
    pub(crate) fn write<'p>(
        &self,
        offload: &Offload,
        is_v6: bool,
        pieces: impl Iterator<Item = &'p [u8]>,
    ) -> io::Result<()> {
        let header = offload.write(is_v6);
        let mut all: SmallVec<[IoSlice<'_>; 64]> = smallvec![IoSlice::new(&header)];
        for piece in pieces {
            all.push(IoSlice::new(piece));
        }
        loop {
            match (&self.0).write_vectored(&all) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
