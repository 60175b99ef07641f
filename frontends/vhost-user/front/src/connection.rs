//! The messages of vhost-user (QEMU, docs/interop/vhost-user.rst) over the socket of a back end.

use std::io::Read;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use vhost::vhost_user::message::{FrontendReq, VhostUserProtocolFeatures};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use crate::Error;
use crate::bytes::PutFields;
use crate::memory::Memory;
use crate::ring::Ring;

/// The bit of the virtio features that announces protocol features.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;

/// The version of the protocol, in the flags of a message's header.
pub const VERSION: u32 = 1;
/// Flag of a header: the message answers another message.
pub const REPLY: u32 = 4;
/// Flag of a header: the sender wants an answer.
pub const NEED_REPLY: u32 = 8;

/// Most bytes of a reply's payload.
const MAX_REPLY_BYTES: usize = 4096;

/// The way in which a ring is enabled after its eventfds have been set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnableMode {
    /// `VHOST_USER_SET_VRING_ENABLE` follows, as the protocol requires.
    Explicit,
    /// No message follows, as with QEMU's cryptodev-vhost-user.
    Never,
}

/// A connection to a back end. All answers have a time limit; the `Frontend` of the crate `vhost` waits forever.
pub struct Connection {
    stream: UnixStream,
    offered_features: u64,
    protocol_features: VhostUserProtocolFeatures,
}

impl Connection {
    /// Connects to a socket, asks for features, and selects the protocol features of `wanted` that the back end supports. A reply
    /// that takes longer than `timeout` is an error.
    pub fn new(path: &Path, wanted: VhostUserProtocolFeatures, timeout: Duration) -> Result<Self, Error> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut connection =
            Self { stream, offered_features: 0, protocol_features: VhostUserProtocolFeatures::empty() };
        connection.offered_features = connection.request_u64(FrontendReq::GET_FEATURES)?;
        if connection.offered_features & PROTOCOL_FEATURES != 0 {
            let bits = connection.request_u64(FrontendReq::GET_PROTOCOL_FEATURES)?;
            let protocol = VhostUserProtocolFeatures::from_bits_truncate(bits) & wanted;
            // The two sides agree on acknowledgements by this message, so it has none itself.
            let code = FrontendReq::SET_PROTOCOL_FEATURES as u32;
            connection.send(code, VERSION, &protocol.bits().to_le_bytes(), &[])?;
            connection.protocol_features = protocol;
        }
        connection.send_acknowledged(FrontendReq::SET_OWNER, &[], &[])?;
        Ok(connection)
    }

    /// Ends the connection. The back end notices the end before it sees a new connection.
    pub fn shut_down(&self) {
        // The back end may have ended the connection before.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Returns the virtio features that the back end offers.
    pub fn offered_features(&self) -> u64 {
        self.offered_features
    }

    /// Returns the negotiated protocol features.
    pub fn protocol_features(&self) -> VhostUserProtocolFeatures {
        self.protocol_features
    }

    /// Returns the number of queues of the back end; 1 if the back end does not report a number.
    pub fn queue_count(&self) -> Result<u64, Error> {
        let has_queue_count = self.protocol_features.contains(VhostUserProtocolFeatures::MQ);
        if has_queue_count { self.request_u64(FrontendReq::GET_QUEUE_NUM) } else { Ok(1) }
    }

    /// Tells the back end the virtio features that the driver has accepted.
    pub fn set_features(&self, features: u64) -> Result<(), Error> {
        self.send_acknowledged(FrontendReq::SET_FEATURES, &features.to_le_bytes(), &[])
    }

    /// Gives the back end this memory, which replaces any earlier memory.
    pub fn set_memory(&self, memory: &Memory) -> Result<(), Error> {
        let regions = memory.regions()?;
        let mut payload = Vec::new();
        payload.put_words(&[regions.len() as u32, 0]);
        for region in &regions {
            for number in [region.guest_phys_addr, region.memory_size, region.userspace_addr, region.mmap_offset] {
                payload.extend(number.to_le_bytes());
            }
        }
        let descriptors: Vec<RawFd> = regions.iter().map(|region| region.mmap_handle).collect();
        self.send_acknowledged(FrontendReq::SET_MEM_TABLE, &payload, &descriptors)
    }

    /// Starts queue `index`: sets size, base and addresses of the ring, then the eventfds for kick and call, in QEMU's order.
    pub fn start_queue(&self, index: usize, ring: &Ring, memory: &Memory, enable: EnableMode) -> Result<(), Error> {
        let state = |code, number| self.send_acknowledged(code, &vring_state(index, number), &[]);
        let event =
            |code, event: &EventFd| self.send_acknowledged(code, &(index as u64).to_le_bytes(), &[event.as_raw_fd()]);
        state(FrontendReq::SET_VRING_NUM, ring.size().into())?;
        state(FrontendReq::SET_VRING_BASE, ring.base()?.into())?;
        let [descriptors, available, used] = ring.addresses();
        let mut addresses = vring_state(index, 0);
        for address in [descriptors, used, available] {
            addresses.extend(memory.user_address(address)?.to_le_bytes());
        }
        // No address for a log of dirty pages.
        addresses.extend(0_u64.to_le_bytes());
        self.send_acknowledged(FrontendReq::SET_VRING_ADDR, &addresses, &[])?;
        event(FrontendReq::SET_VRING_KICK, ring.kick_event())?;
        event(FrontendReq::SET_VRING_CALL, ring.call_event())?;
        if enable == EnableMode::Explicit { state(FrontendReq::SET_VRING_ENABLE, 1) } else { Ok(()) }
    }

    /// Stops queue `index`. Returns the available index at which the back end stopped.
    pub fn stop_queue(&self, index: usize) -> Result<u32, Error> {
        let reply = self.request(FrontendReq::GET_VRING_BASE, &vring_state(index, 0))?;
        let number = reply.get(4..8).ok_or(Error::Unanswered)?;
        Ok(u32::from_le_bytes(number.try_into().expect("four bytes")))
    }

    /// Reads the first `bytes` bytes of the device's configuration space.
    pub fn read_config(&self, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut payload = Vec::new();
        payload.put_words(&[0, bytes as u32, 0]);
        payload.resize(12 + bytes, 0);
        let reply = self.request(FrontendReq::GET_CONFIG, &payload)?;
        reply.get(12..12 + bytes).map(<[u8]>::to_vec).ok_or(Error::Unanswered)
    }

    /// Sends a message that has no reply. The back end acknowledges it if both sides support VHOST_USER_PROTOCOL_F_REPLY_ACK.
    pub fn send_acknowledged(&self, code: FrontendReq, payload: &[u8], descriptors: &[RawFd]) -> Result<(), Error> {
        if !self.protocol_features.contains(VhostUserProtocolFeatures::REPLY_ACK) {
            return self.send(code as u32, VERSION, payload, descriptors);
        }
        self.send(code as u32, VERSION | NEED_REPLY, payload, descriptors)?;
        if self.receive_reply(code as u32)?.iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err(Error::MessageRefused(code as u32))
        }
    }

    /// Sends a message and waits for its reply.
    pub fn request(&self, code: FrontendReq, payload: &[u8]) -> Result<Vec<u8>, Error> {
        self.send(code as u32, VERSION, payload, &[])?;
        self.receive_reply(code as u32)
    }

    fn request_u64(&self, code: FrontendReq) -> Result<u64, Error> {
        let bytes = self.request(code, &[])?.try_into().map_err(|_| Error::Unanswered)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Sends any message: its code, the flags of its header, payload, descriptors.
    pub fn send(&self, code: u32, flags: u32, payload: &[u8], descriptors: &[RawFd]) -> Result<(), Error> {
        self.send_bytes(&message(code, flags, payload), descriptors)
    }

    /// Sends bytes that need not be a message.
    pub fn send_bytes(&self, bytes: &[u8], descriptors: &[RawFd]) -> Result<(), Error> {
        let sent = self.stream.send_with_fds(&[bytes], descriptors)?;
        if sent == bytes.len() { Ok(()) } else { Err(Error::Unanswered) }
    }

    /// Waits for the reply to a message with this code, and returns its payload.
    pub fn receive_reply(&self, code: u32) -> Result<Vec<u8>, Error> {
        let mut header = [0; 12];
        (&self.stream).read_exact(&mut header)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let bytes = word(8) as usize;
        if word(0) != code || word(4) & REPLY == 0 || bytes > MAX_REPLY_BYTES {
            return Err(Error::Unanswered);
        }
        let mut payload = vec![0; bytes];
        (&self.stream).read_exact(&mut payload)?;
        Ok(payload)
    }
}

/// Builds a message: header and payload.
pub fn message(code: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + payload.len());
    for word in [code, flags, payload.len() as u32] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// Builds a `struct vhost_vring_state`: a queue and a number.
fn vring_state(index: usize, number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_words(&[index as u32, number]);
    bytes
}
