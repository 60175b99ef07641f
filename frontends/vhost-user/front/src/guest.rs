//! A guest: its memory, its connection, its queues and its sessions.

use std::path::Path;
use std::time::Duration;

use gantry_abi_virtio_crypto::Config;
use vhost::vhost_user::message::{FrontendReq, VhostUserProtocolFeatures};

use crate::Error;
use crate::connection::{Connection, Enable, PROTOCOL_FEATURES};
use crate::memory::Memory;
use crate::parameters::{Layout, Parameters, destroy_request};
use crate::queue::{Queue, Shape};
use crate::request::{Format, Operands, ParameterSource, Reply, Request};

/// VIRTIO_F_VERSION_1: the device is not a legacy device (virtio 1.3, section 6).
pub const VERSION_1: u64 = 1 << 32;
/// VIRTIO_F_INDIRECT_DESC: chains may be in indirect tables.
pub const INDIRECT_DESC: u64 = 1 << 28;
/// VIRTIO_F_EVENT_IDX: both sides tell when they want to be notified.
pub const EVENT_IDX: u64 = 1 << 29;
/// All features of the device itself: VIRTIO_CRYPTO_F_.
pub const CRYPTO: u64 = 0x3f;

/// The part of the device that the front end implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// Like QEMU's cryptodev-vhost-user: a message of this layout opens a session; the front end implements configuration space and
    /// control queue. The back end does not learn the features that the guest's driver accepted.
    Messages(Layout, Enable),
    /// Like generic front ends, such as cloud-hypervisor: the back end implements everything.
    Generic,
}

/// The setup of a guest.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The part of the device that the front end implements.
    pub front_end: FrontEnd,
    /// The number of data queues to use. The device may have fewer.
    pub queues: usize,
    /// The layout of each queue.
    pub shape: Shape,
    /// Guest memory: address and bytes of each region.
    pub regions: Vec<(u64, usize)>,
    /// Features of the device that the driver accepts, if offered.
    pub features: u64,
    /// The time limit of answers.
    pub patience: Duration,
}

impl Setup {
    /// Returns the setup of QEMU 10 with a Linux guest: one queue.
    pub fn qemu() -> Self {
        Self {
            front_end: FrontEnd::Messages(Layout::Qemu10, Enable::Never),
            queues: 1,
            shape: Shape::default(),
            regions: vec![(0x10_0000, 16 << 20)],
            features: CRYPTO,
            patience: Duration::from_secs(10),
        }
    }

    /// Returns the setup of a generic front end, with everything that the device offers.
    pub fn generic() -> Self {
        Self { front_end: FrontEnd::Generic, ..Self::qemu() }
    }

    /// Makes room for requests of up to `bytes` bytes of input and output together, `count` at the same time in each queue.
    #[must_use]
    pub fn requests(mut self, bytes: usize, count: usize) -> Self {
        // A table of 4 KiB, header, keys and status.
        let slot = (bytes + (8 << 10)).next_multiple_of(64);
        self.shape = Shape { slot, slots: count, ..self.shape };
        let rings = (self.queues + 1) * (64 * usize::from(self.shape.ring) + (64 << 10));
        self.regions[self.shape.region].1 = (self.queues * count * slot + rings).next_multiple_of(4096);
        self
    }
}

/// An open session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The number of the session.
    pub id: u64,
    /// The operation that closes the session.
    pub destroy: u32,
}

/// A guest with a virtio crypto device.
pub struct Guest {
    /// The connection, for messages that no guest sends.
    pub connection: Connection,
    /// The data queues.
    pub queues: Vec<Queue>,
    memory: Memory,
    /// The control queue, if the back end implements it.
    control: Option<Queue>,
    format: Format,
    setup: Setup,
}

impl Guest {
    /// Connects to a back end and starts every queue.
    pub fn connect(path: &Path, setup: &Setup) -> Result<Self, Error> {
        let mut memory = Memory::new(&setup.regions)?;
        let connection = Connection::new(path, protocol(setup.front_end), setup.patience)?;
        let features = features(&connection, setup);
        let mut data_queues = setup.queues;
        let mut shape = setup.shape;
        if setup.front_end == FrontEnd::Generic {
            let config = Config::parse(&connection.config(Config::LENGTH)?)?;
            data_queues = data_queues.min(config.max_dataqueues as usize);
            shape.event_index &= features & EVENT_IDX != 0;
            shape.indirect &= features & INDIRECT_DESC != 0;
        }
        let queues = (0..data_queues).map(|_| Queue::new(&mut memory, shape)).collect::<Result<_, _>>()?;
        let control = match setup.front_end {
            FrontEnd::Generic => {
                Some(Queue::new(&mut memory, Shape { slots: 1, slot: 16 << 10, ring: 16, piece: usize::MAX, ..shape })?)
            }
            FrontEnd::Messages(..) => None,
        };
        let format = match setup.front_end {
            FrontEnd::Generic => Format::for_features(features),
            FrontEnd::Messages(..) => Format::default(),
        };
        let guest = Self { connection, queues, memory, control, format, setup: setup.clone() };
        guest.start()?;
        Ok(guest)
    }

    /// Connects again, after the back end has disappeared. Memory and rings are unchanged; the new back end gets the unfinished
    /// requests. All sessions are lost.
    pub fn reconnect(&mut self, path: &Path) -> Result<(), Error> {
        self.connection.end();
        self.connection = Connection::new(path, protocol(self.setup.front_end), self.setup.patience)?;
        self.start()
    }

    /// Restarts data queue `index` after [`Connection::stop`]. The queue continues with the next request.
    pub fn restart(&self, index: usize) -> Result<(), Error> {
        let enable = match self.setup.front_end {
            FrontEnd::Messages(_, enable) => enable,
            FrontEnd::Generic => Enable::Explicit,
        };
        self.connection.start(index, &self.queues[index].ring, &self.memory, enable)
    }

    /// Returns the guest's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the format of data requests.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Reads the device's configuration space.
    pub fn config(&self) -> Result<Config, Error> {
        Ok(Config::parse(&self.connection.config(Config::LENGTH)?)?)
    }

    /// Opens a session: by a message, or through the control queue.
    pub fn open(&mut self, parameters: &Parameters<'_>) -> Result<Session, Error> {
        let destroy = parameters.destroy_opcode();
        let FrontEnd::Messages(layout, _) = self.setup.front_end else {
            let reply = self.control(&Request::control(parameters.control(self.format.revision_1()), 16))?;
            let status = u32::from_le_bytes(reply.status[8..12].try_into().expect("four bytes"));
            let id = u64::from_le_bytes(reply.status[..8].try_into().expect("eight bytes"));
            return if status == 0 { Ok(Session { id, destroy }) } else { Err(Error::Refused(status.into())) };
        };
        let message = parameters.message(layout).ok_or(Error::Layout)?;
        self.open_by(&message, layout.session_at()).map(|id| Session { id, destroy })
    }

    /// Sends any payload as VHOST_USER_CREATE_CRYPTO_SESSION, and returns the session's number from offset `session_at` of the reply.
    pub fn open_by(&self, payload: &[u8], session_at: usize) -> Result<u64, Error> {
        let reply = self.connection.request(FrontendReq::CREATE_CRYPTO_SESSION, payload)?;
        let bytes = reply.get(session_at..session_at + 8).ok_or(Error::Unanswered)?;
        let id = i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        u64::try_from(id).map_err(|_| Error::Refused(id))
    }

    /// Closes a session. Without VHOST_USER_PROTOCOL_F_REPLY_ACK, the back end does not report an unknown session.
    pub fn close(&mut self, session: Session) -> Result<(), Error> {
        if self.control.is_some() {
            let input = destroy_request(session.destroy, session.id, self.format.revision_1());
            let reply = self.control(&Request::control(input, 1))?;
            return if reply.status() == 0 { Ok(()) } else { Err(Error::Refused(reply.status().into())) };
        }
        let accepted =
            self.connection.send_acknowledged(FrontendReq::CLOSE_CRYPTO_SESSION, &session.id.to_le_bytes(), &[]);
        accepted.map_err(|error| if matches!(error, Error::Denied(_)) { Error::Refused(-1) } else { error })
    }

    /// Runs a request of the control queue.
    pub fn control(&mut self, request: &Request) -> Result<Reply, Error> {
        let queue = self.control.as_mut().ok_or(Error::Layout)?;
        let mut replies = queue.run(std::slice::from_ref(request), self.setup.patience)?;
        replies.pop().ok_or(Error::Unanswered)
    }

    /// Runs a request of a data queue.
    pub fn run(&mut self, queue: usize, request: &Request) -> Result<Reply, Error> {
        self.run_all(queue, std::slice::from_ref(request))?.pop().ok_or(Error::Unanswered)
    }

    /// Runs requests, all in flight at the same time. The replies are in the order of the requests.
    pub fn run_all(&mut self, queue: usize, requests: &[Request]) -> Result<Vec<Reply>, Error> {
        self.queues[queue].run(requests, self.setup.patience)
    }

    /// Builds a request in the guest's format, and runs it in the first data queue.
    pub fn run_operation(
        &mut self,
        operation: u32,
        by: ParameterSource<'_>,
        operands: &Operands<'_>,
    ) -> Result<Reply, Error> {
        let request = self.format.request(operation, by, operands);
        self.run(0, &request)
    }

    /// Gives the back end this memory instead of the guest's memory. The guest continues to use its own memory.
    pub fn replace_memory(&self, memory: &Memory) -> Result<(), Error> {
        self.connection.set_memory(memory)
    }

    /// Sets up memory and queues in the back end.
    fn start(&self) -> Result<(), Error> {
        let (accepted, enable) = match self.setup.front_end {
            // QEMU does not tell the back end the features that the guest's driver accepted.
            FrontEnd::Messages(_, enable) => (self.connection.offered() & PROTOCOL_FEATURES, enable),
            FrontEnd::Generic => (features(&self.connection, &self.setup), Enable::Explicit),
        };
        self.connection.set_features(accepted)?;
        self.connection.set_memory(&self.memory)?;
        // The control queue follows all data queues of the device, used or not.
        let control = match &self.control {
            Some(_) => self.config()?.max_dataqueues as usize,
            None => 0,
        };
        for (index, queue) in self.queues.iter().enumerate().chain(self.control.iter().map(|queue| (control, queue))) {
            self.connection.start(index, &queue.ring, &self.memory, enable)?;
        }
        Ok(())
    }
}

/// Returns the features that both sides support.
fn features(connection: &Connection, setup: &Setup) -> u64 {
    let mut wanted = setup.features | VERSION_1 | PROTOCOL_FEATURES;
    wanted |= if setup.shape.event_index { EVENT_IDX } else { 0 };
    wanted |= if setup.shape.indirect { INDIRECT_DESC } else { 0 };
    connection.offered() & wanted
}

fn protocol(front_end: FrontEnd) -> VhostUserProtocolFeatures {
    let both = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
    match front_end {
        FrontEnd::Messages(..) => both | VhostUserProtocolFeatures::CRYPTO_SESSION,
        FrontEnd::Generic => both | VhostUserProtocolFeatures::CONFIG,
    }
}
