//! The TUN device: packets that the stack routes into the tunnel, and packets out of it.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use smallvec::{SmallVec, smallvec};

use crate::packet::offload::{HEADER_BYTES, Offload};
use crate::sys;

/// Work that the stack may leave to the device (linux/if_tun.h): checksums, TCP segmentation over IPv4 and IPv6 with ECN, and UDP
/// segmentation, which Linux supports since 6.2.
const OFFLOAD_CHECKSUM: u32 = 0x01;
const OFFLOAD_TCP: u32 = 0x02 | 0x04 | 0x08;
const OFFLOAD_UDP: u32 = 0x20 | 0x40;

/// Maximum bytes of one read: an IP packet, and the header before it.
pub(crate) const MAX_READ_BYTES: usize = HEADER_BYTES + 65_535 + 40;

#[derive(Debug)]
pub(crate) struct Queue(File);

/// Opens a device with `queues` queues. The device disappears when they are closed.
pub(crate) fn open(name: &str, queues: usize) -> io::Result<(String, Vec<Queue>)> {
    let mut name = name.to_owned();
    let open = || -> io::Result<Queue> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        name = sys::attach_tun(&file, &name, queues > 1)?;
        sys::set_tun_offload(&file, HEADER_BYTES, OFFLOAD_CHECKSUM | OFFLOAD_TCP | OFFLOAD_UDP)
            .or_else(|_| sys::set_tun_offload(&file, HEADER_BYTES, OFFLOAD_CHECKSUM | OFFLOAD_TCP))?;
        Ok(Queue(file))
    };
    let all = std::iter::repeat_with(open).take(queues).collect::<io::Result<_>>()?;
    Ok((name, all))
}

impl Queue {
    /// Reads one packet into a buffer of [`MAX_READ_BYTES`] bytes. Returns its offload header and the packet; `None` if there is no packet.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<(Offload, &'b mut [u8])>> {
        loop {
            match (&self.0).read(buffer) {
                Ok(length) => {
                    let Some((header, packet)) = buffer[..length].split_first_chunk_mut() else { return Ok(None) };
                    // The stack uses only offloads that were offered. A packet with any other offload is dropped: it becomes empty.
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

    /// Hands the stack a packet, in pieces.
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
