//! A guest: its memory, its connection, its queues and its sessions.

use std::path::Path;
use std::time::Duration;

use gantry_abi_virtio_crypto::Config;
use vhost::vhost_user::message::{FrontendReq, VhostUserProtocolFeatures};

use crate::Error;
use crate::connection::{Connection, EnableMode, PROTOCOL_FEATURES};
use crate::memory::Memory;
use crate::parameters::{Layout, Parameters, destroy_request};
use crate::queue::{Queue, QueueLayout};
use crate::request::{Operands, ParameterSource, Reply, Request, RequestFormat};

/// VIRTIO_F_VERSION_1: the device is not a legacy device (virtio 1.3, section 6).
pub const VERSION_1: u64 = 1 << 32;
/// VIRTIO_F_INDIRECT_DESC: chains may be in indirect tables.
pub const INDIRECT_DESC: u64 = 1 << 28;
/// VIRTIO_F_EVENT_IDX: both sides tell when they want to be notified.
pub const EVENT_IDX: u64 = 1 << 29;
/// All features of the device itself: VIRTIO_CRYPTO_F_.
pub const CRYPTO_FEATURES: u64 = 0x3f;

/// The part of the device that the front end implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// Like QEMU's cryptodev-vhost-user: a message of this layout opens a session; the front end implements configuration space and
    /// control queue. The back end does not learn the features that the guest's driver accepted.
    Messages(Layout, EnableMode),
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
    pub queue_layout: QueueLayout,
    /// Guest memory: address and bytes of each region.
    pub regions: Vec<(u64, usize)>,
    /// Features of the device that the driver accepts, if offered.
    pub features: u64,
    /// The time limit of answers.
    pub answer_timeout: Duration,
}

impl Setup {
    /// Returns the setup of QEMU 10 with a Linux guest: one queue.
    pub fn qemu() -> Self {
        Self {
            front_end: FrontEnd::Messages(Layout::Qemu10, EnableMode::Never),
            queues: 1,
            queue_layout: QueueLayout::default(),
            regions: vec![(0x10_0000, 16 << 20)],
            features: CRYPTO_FEATURES,
            answer_timeout: Duration::from_secs(10),
        }
    }

    /// Returns the setup of a generic front end, with everything that the device offers.
    pub fn generic() -> Self {
        Self { front_end: FrontEnd::Generic, ..Self::qemu() }
    }

    /// Makes room for requests of up to `bytes` bytes of input and output together, `count` at the same time in each queue.
    #[must_use]
    pub fn with_request_room(mut self, bytes: usize, count: usize) -> Self {
        // A table of 4 KiB, header, keys and status.
        let slot_bytes = (bytes + (8 << 10)).next_multiple_of(64);
        self.queue_layout = QueueLayout { slot_bytes, slots: count, ..self.queue_layout };
        let rings = (self.queues + 1) * (64 * usize::from(self.queue_layout.ring_size) + (64 << 10));
        self.regions[self.queue_layout.region].1 = (self.queues * count * slot_bytes + rings).next_multiple_of(4096);
        self
    }
}

/// An open session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The number of the session.
    pub id: u64,
    /// The operation that closes the session.
    pub destroy_opcode: u32,
}

/// A guest with a virtio crypto device.
pub struct Guest {
    /// The connection, for messages that no guest sends.
    pub connection: Connection,
    /// The data queues.
    pub queues: Vec<Queue>,
    memory: Memory,
    /// The control queue, if the back end implements it.
    control_queue: Option<Queue>,
    format: RequestFormat,
    setup: Setup,
}

impl Guest {
    /// Connects to a back end and starts every queue.
    pub fn connect(path: &Path, setup: &Setup) -> Result<Self, Error> {
        let mut memory = Memory::new(&setup.regions)?;
        let connection = Connection::new(path, wanted_protocol_features(setup.front_end), setup.answer_timeout)?;
        let features = accepted_features(&connection, setup);
        let mut data_queues = setup.queues;
        let mut queue_layout = setup.queue_layout;
        if setup.front_end == FrontEnd::Generic {
            let config = Config::parse(&connection.read_config(Config::LENGTH)?)?;
            data_queues = data_queues.min(config.max_dataqueues as usize);
            queue_layout.event_index &= features & EVENT_IDX != 0;
            queue_layout.indirect &= features & INDIRECT_DESC != 0;
        }
        let queues = (0..data_queues).map(|_| Queue::new(&mut memory, queue_layout)).collect::<Result<_, _>>()?;
        let control_queue = match setup.front_end {
            FrontEnd::Generic => Some(Queue::new(
                &mut memory,
                QueueLayout {
                    slots: 1,
                    slot_bytes: 16 << 10,
                    ring_size: 16,
                    max_descriptor_bytes: usize::MAX,
                    ..queue_layout
                },
            )?),
            FrontEnd::Messages(..) => None,
        };
        let format = match setup.front_end {
            FrontEnd::Generic => RequestFormat::for_features(features),
            FrontEnd::Messages(..) => RequestFormat::default(),
        };
        let guest = Self { connection, queues, memory, control_queue, format, setup: setup.clone() };
        guest.set_up()?;
        Ok(guest)
    }

    /// Connects again, after the back end has disappeared. Memory and rings are unchanged; the new back end gets the unfinished
    /// requests. All sessions are lost.
    pub fn reconnect(&mut self, path: &Path) -> Result<(), Error> {
        self.connection.shut_down();
        self.connection =
            Connection::new(path, wanted_protocol_features(self.setup.front_end), self.setup.answer_timeout)?;
        self.set_up()
    }

    /// Restarts data queue `index` after [`Connection::stop_queue`]. The queue continues with the next request.
    pub fn restart_queue(&self, index: usize) -> Result<(), Error> {
        let enable = match self.setup.front_end {
            FrontEnd::Messages(_, enable) => enable,
            FrontEnd::Generic => EnableMode::Explicit,
        };
        self.connection.start_queue(index, &self.queues[index].ring, &self.memory, enable)
    }

    /// Returns the guest's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the format of data requests.
    pub fn format(&self) -> RequestFormat {
        self.format
    }

    /// Reads the device's configuration space.
    pub fn config(&self) -> Result<Config, Error> {
        Ok(Config::parse(&self.connection.read_config(Config::LENGTH)?)?)
    }

    /// Opens a session: by a message, or through the control queue.
    pub fn open(&mut self, parameters: &Parameters<'_>) -> Result<Session, Error> {
        let destroy_opcode = parameters.destroy_opcode();
        let FrontEnd::Messages(layout, _) = self.setup.front_end else {
            let reply =
                self.run_control(&Request::control(parameters.control_request(self.format.has_revision_1()), 16))?;
            let status = u32::from_le_bytes(reply.status[8..12].try_into().expect("four bytes"));
            let id = u64::from_le_bytes(reply.status[..8].try_into().expect("eight bytes"));
            return if status == 0 {
                Ok(Session { id, destroy_opcode })
            } else {
                Err(Error::SessionRefused(status.into()))
            };
        };
        let message = parameters.message(layout).ok_or(Error::NotExpressible)?;
        self.open_with_message(&message, layout.session_offset()).map(|id| Session { id, destroy_opcode })
    }

    /// Sends any payload as VHOST_USER_CREATE_CRYPTO_SESSION, and returns the session's number from offset `session_offset` of the reply.
    pub fn open_with_message(&self, payload: &[u8], session_offset: usize) -> Result<u64, Error> {
        let reply = self.connection.request(FrontendReq::CREATE_CRYPTO_SESSION, payload)?;
        let bytes = reply.get(session_offset..session_offset + 8).ok_or(Error::Unanswered)?;
        let id = i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        u64::try_from(id).map_err(|_| Error::SessionRefused(id))
    }

    /// Closes a session. Without VHOST_USER_PROTOCOL_F_REPLY_ACK, the back end does not report an unknown session.
    pub fn close(&mut self, session: Session) -> Result<(), Error> {
        if self.control_queue.is_some() {
            let input = destroy_request(session.destroy_opcode, session.id, self.format.has_revision_1());
            let reply = self.run_control(&Request::control(input, 1))?;
            return if reply.status() == 0 { Ok(()) } else { Err(Error::SessionRefused(reply.status().into())) };
        }
        let accepted =
            self.connection.send_acknowledged(FrontendReq::CLOSE_CRYPTO_SESSION, &session.id.to_le_bytes(), &[]);
        accepted
            .map_err(|error| if matches!(error, Error::MessageRefused(_)) { Error::SessionRefused(-1) } else { error })
    }

    /// Runs a request of the control queue.
    pub fn run_control(&mut self, request: &Request) -> Result<Reply, Error> {
        let queue = self.control_queue.as_mut().ok_or(Error::NotExpressible)?;
        let mut replies = queue.run(std::slice::from_ref(request), self.setup.answer_timeout)?;
        replies.pop().ok_or(Error::Unanswered)
    }

    /// Runs a request of a data queue.
    pub fn run(&mut self, queue: usize, request: &Request) -> Result<Reply, Error> {
        self.run_all(queue, std::slice::from_ref(request))?.pop().ok_or(Error::Unanswered)
    }

    /// Runs requests, all in flight at the same time. The replies are in the order of the requests.
    pub fn run_all(&mut self, queue: usize, requests: &[Request]) -> Result<Vec<Reply>, Error> {
        self.queues[queue].run(requests, self.setup.answer_timeout)
    }

    /// Builds a request in the guest's format, and runs it in the first data queue.
    pub fn run_operation(
        &mut self,
        operation: u32,
        source: ParameterSource<'_>,
        operands: &Operands<'_>,
    ) -> Result<Reply, Error> {
        let request = self.format.build_request(operation, source, operands);
        self.run(0, &request)
    }

    /// Gives the back end this memory instead of the guest's memory. The guest continues to use its own memory.
    pub fn replace_memory(&self, memory: &Memory) -> Result<(), Error> {
        self.connection.set_memory(memory)
    }

    /// Sets up memory and queues in the back end.
    fn set_up(&self) -> Result<(), Error> {
        let (accepted, enable) = match self.setup.front_end {
            // QEMU does not tell the back end the features that the guest's driver accepted.
            FrontEnd::Messages(_, enable) => (self.connection.offered_features() & PROTOCOL_FEATURES, enable),
            FrontEnd::Generic => (accepted_features(&self.connection, &self.setup), EnableMode::Explicit),
        };
        self.connection.set_features(accepted)?;
        self.connection.set_memory(&self.memory)?;
        // The control queue follows all data queues of the device, used or not.
        let control_index = match &self.control_queue {
            Some(_) => self.config()?.max_dataqueues as usize,
            None => 0,
        };
        for (index, queue) in
            self.queues.iter().enumerate().chain(self.control_queue.iter().map(|queue| (control_index, queue)))
        {
            self.connection.start_queue(index, &queue.ring, &self.memory, enable)?;
        }
        Ok(())
    }
}

/// Returns the features that both sides support.
fn accepted_features(connection: &Connection, setup: &Setup) -> u64 {
    let mut wanted = setup.features | VERSION_1 | PROTOCOL_FEATURES;
    wanted |= if setup.queue_layout.event_index { EVENT_IDX } else { 0 };
    wanted |= if setup.queue_layout.indirect { INDIRECT_DESC } else { 0 };
    connection.offered_features() & wanted
}

fn wanted_protocol_features(front_end: FrontEnd) -> VhostUserProtocolFeatures {
    let both = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
    match front_end {
        FrontEnd::Messages(..) => both | VhostUserProtocolFeatures::CRYPTO_SESSION,
        FrontEnd::Generic => both | VhostUserProtocolFeatures::CONFIG,
    }
}
