//! A guest: its memory, its connection, its queues and its sessions.

use std::path::Path;
use std::time::Duration;

use gantry_abi_virtio_crypto::Config;
use vhost::vhost_user::message::{FrontendReq, VhostUserProtocolFeatures};

use crate::Error;
use crate::connection::{Connection, Enable, PROTOCOL_FEATURES};
use crate::memory::Memory;
use crate::parameters::{Layout, Parameters, destroy};
use crate::queue::{Queue, Shape};
use crate::request::{By, Format, Operands, Reply, Request};

/// VIRTIO_F_VERSION_1, VIRTIO_F_INDIRECT_DESC and VIRTIO_F_EVENT_IDX (virtio 1.3, section 6).
pub const VERSION_1: u64 = 1 << 32;
/// Chains may be in tables.
pub const INDIRECT_DESC: u64 = 1 << 28;
/// Both sides say when they want to be notified.
pub const EVENT_IDX: u64 = 1 << 29;
/// All features of the device itself: VIRTIO_CRYPTO_F_.
pub const CRYPTO: u64 = 0x3f;

/// How much of the device the front end keeps to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As QEMU's cryptodev-vhost-user: sessions go in messages of this layout; configuration space and control queue are the front end's.
    /// The back end is not told of the features that the guest's driver took.
    Messages(Layout, Enable),
    /// As generic front ends, such as cloud-hypervisor's: all of it is the back end's.
    Generic,
}

/// What a guest is like.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How much of the device the front end keeps to itself.
    pub form: Form,
    /// Data queues that are wanted. The device may have fewer.
    pub queues: usize,
    /// What each is like.
    pub shape: Shape,
    /// Guest memory: address and bytes of each region.
    pub regions: Vec<(u64, usize)>,
    /// Features of the device that a driver takes, of those offered.
    pub features: u64,
    /// How long an answer may take.
    pub patience: Duration,
}

impl Setup {
    /// As QEMU 10 with a guest's Linux: one queue.
    pub fn qemu() -> Self {
        Self {
            form: Form::Messages(Layout::Qemu10, Enable::Never),
            queues: 1,
            shape: Shape::default(),
            regions: vec![(0x10_0000, 16 << 20)],
            features: CRYPTO,
            patience: Duration::from_secs(10),
        }
    }

    /// As a generic front end, with everything that the device offers.
    pub fn generic() -> Self {
        Self { form: Form::Generic, ..Self::qemu() }
    }

    /// With requests of up to `bytes` bytes of input and output together, `count` at the same time in each queue, in memory that suffices.
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

/// A session that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// The operation that closes it.
    pub destroy: u32,
}

/// A guest with a virtio crypto device.
pub struct Guest {
    /// The connection, for messages that no guest sends.
    pub connection: Connection,
    /// The data queues.
    pub queues: Vec<Queue>,
    memory: Memory,
    /// The control queue, where it is the back end's.
    control: Option<Queue>,
    format: Format,
    setup: Setup,
}

impl Guest {
    /// Connects to a back end and starts every queue.
    pub fn connect(path: &Path, setup: &Setup) -> Result<Self, Error> {
        let mut memory = Memory::new(&setup.regions)?;
        let connection = Connection::new(path, protocol(setup.form), setup.patience)?;
        let features = features(&connection, setup);
        let mut data_queues = setup.queues;
        let mut shape = setup.shape;
        if setup.form == Form::Generic {
            let config = Config::parse(&connection.config(Config::LENGTH)?)?;
            data_queues = data_queues.min(config.max_dataqueues as usize);
            shape.event_index &= features & EVENT_IDX != 0;
            shape.indirect &= features & INDIRECT_DESC != 0;
        }
        let queues = (0..data_queues).map(|_| Queue::new(&mut memory, shape)).collect::<Result<_, _>>()?;
        let control = match setup.form {
            Form::Generic => {
                Some(Queue::new(&mut memory, Shape { slots: 1, slot: 16 << 10, ring: 16, piece: usize::MAX, ..shape })?)
            }
            Form::Messages(..) => None,
        };
        let format = match setup.form {
            Form::Generic => Format::of(features),
            Form::Messages(..) => Format::default(),
        };
        let guest = Self { connection, queues, memory, control, format, setup: setup.clone() };
        guest.start()?;
        Ok(guest)
    }

    /// Connects again, after the back end has gone. Memory and rings are as before; requests that it had not done are now its again.
    /// There are no sessions.
    pub fn reconnect(&mut self, path: &Path) -> Result<(), Error> {
        self.connection.end();
        self.connection = Connection::new(path, protocol(self.setup.form), self.setup.patience)?;
        self.start()
    }

    /// Starts data queue `index` again after [`Connection::stop`], at the request that is next.
    pub fn restart(&self, index: usize) -> Result<(), Error> {
        let enable = match self.setup.form {
            Form::Messages(_, enable) => enable,
            Form::Generic => Enable::Asked,
        };
        self.connection.start(index, &self.queues[index].ring, &self.memory, enable)
    }

    /// The guest's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The format of data requests.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Reads the device's configuration space.
    pub fn config(&self) -> Result<Config, Error> {
        Ok(Config::parse(&self.connection.config(Config::LENGTH)?)?)
    }

    /// Opens a session: by a message, or through the control queue.
    pub fn open(&mut self, parameters: &Parameters<'_>) -> Result<Session, Error> {
        let destroy = parameters.destroy();
        let Form::Messages(layout, _) = self.setup.form else {
            let reply = self.control(&Request::control(parameters.control(self.format.revision_1()), 16))?;
            let status = u32::from_le_bytes(reply.status[8..12].try_into().expect("four bytes"));
            let id = u64::from_le_bytes(reply.status[..8].try_into().expect("eight bytes"));
            return if status == 0 { Ok(Session { id, destroy }) } else { Err(Error::Refused(status.into())) };
        };
        let message = parameters.message(layout).ok_or(Error::Layout)?;
        self.open_by(&message, layout.session_at()).map(|id| Session { id, destroy })
    }

    /// Sends any payload as VHOST_USER_CREATE_CRYPTO_SESSION, and returns the number that the reply has at `session_at`.
    pub fn open_by(&self, payload: &[u8], session_at: usize) -> Result<u64, Error> {
        let reply = self.connection.ask(FrontendReq::CREATE_CRYPTO_SESSION, payload)?;
        let bytes = reply.get(session_at..session_at + 8).ok_or(Error::Unanswered)?;
        let id = i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        u64::try_from(id).map_err(|_| Error::Refused(id))
    }

    /// Closes a session. Without VHOST_USER_PROTOCOL_F_REPLY_ACK nobody says whether there was one.
    pub fn close(&mut self, session: Session) -> Result<(), Error> {
        if self.control.is_some() {
            let input = destroy(session.destroy, session.id, self.format.revision_1());
            let reply = self.control(&Request::control(input, 1))?;
            return if reply.status() == 0 { Ok(()) } else { Err(Error::Refused(reply.status().into())) };
        }
        let told = self.connection.tell(FrontendReq::CLOSE_CRYPTO_SESSION, &session.id.to_le_bytes(), &[]);
        told.map_err(|error| if matches!(error, Error::Denied(_)) { Error::Refused(-1) } else { error })
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

    /// Runs requests, all in flight at the same time. The replies are in their order.
    pub fn run_all(&mut self, queue: usize, requests: &[Request]) -> Result<Vec<Reply>, Error> {
        self.queues[queue].run(requests, self.setup.patience)
    }

    /// Builds a request in the guest's format and runs it in the first data queue.
    pub fn ask(&mut self, operation: u32, by: By<'_>, operands: &Operands<'_>) -> Result<Reply, Error> {
        let request = self.format.request(operation, by, operands);
        self.run(0, &request)
    }

    /// Gives the back end this memory in place of the guest's, which goes on using its own.
    pub fn replace_memory(&self, memory: &Memory) -> Result<(), Error> {
        self.connection.set_memory(memory)
    }

    /// Memory and queues, as the back end has to know them.
    fn start(&self) -> Result<(), Error> {
        let (told, enable) = match self.setup.form {
            // What the guest's driver took stays between it and QEMU.
            Form::Messages(_, enable) => (self.connection.offered() & PROTOCOL_FEATURES, enable),
            Form::Generic => (features(&self.connection, &self.setup), Enable::Asked),
        };
        self.connection.set_features(told)?;
        self.connection.set_memory(&self.memory)?;
        // The control queue is behind all data queues that the device has, whether or not they are used.
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

/// The features that both sides have.
fn features(connection: &Connection, setup: &Setup) -> u64 {
    let mut wanted = setup.features | VERSION_1 | PROTOCOL_FEATURES;
    wanted |= if setup.shape.event_index { EVENT_IDX } else { 0 };
    wanted |= if setup.shape.indirect { INDIRECT_DESC } else { 0 };
    connection.offered() & wanted
}

fn protocol(form: Form) -> VhostUserProtocolFeatures {
    let both = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
    match form {
        Form::Messages(..) => both | VhostUserProtocolFeatures::CRYPTO_SESSION,
        Form::Generic => both | VhostUserProtocolFeatures::CONFIG,
    }
}
