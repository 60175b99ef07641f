//! A guest that means harm, and its neighbour, whom that must not concern.

use std::path::PathBuf;
use std::time::Duration;

use gantry_vhost_user::Limits;
use gantry_vhost_user_front::queue::Prepared;
use gantry_vhost_user_front::{Guest, Session, Setup};

use super::server::Server;
use super::{assert_session_serves, is_known};

/// How long a device may take to complete a chain that it is not expected to complete.
const SILENCE: Duration = Duration::from_millis(300);

/// And one that it has to complete.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has this status, which is all that the device wrote: in its place, or where the chain broke, in the last byte before that.
    Refused(u8),
    /// It came back, and nothing was written into it.
    Empty,
    /// It is the known answer.
    Done,
    /// It did not come back.
    Silent,
}

/// A server, a guest that means harm, and its neighbour.
pub(crate) struct Hostile {
    pub(crate) server: Server,
    pub(crate) guest: Guest,
    pub(crate) session: Session,
    neighbour: Guest,
    neighbours_session: Session,
    setup: Setup,
}

impl Hostile {
    /// Both connected, and both served.
    pub(crate) fn new(setup: &Setup) -> Self {
        let server = Server::new(&[Limits::default(), Limits::default()]);
        let mut guest = Guest::connect(&server.socket(0), setup).unwrap();
        let session = super::cbc(&mut guest);
        assert_session_serves(&mut guest, session);
        let mut neighbour = Guest::connect(&server.socket(1), &Setup::qemu()).unwrap();
        let neighbours_session = super::cbc(&mut neighbour);
        let mut hostile = Self { server, guest, session, neighbour, neighbours_session, setup: setup.clone() };
        hostile.assert_neighbour_is_served();
        hostile
    }

    /// The guest's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.server.socket(0)
    }

    /// The known answer's request, in memory: harm is done to that.
    pub(crate) fn prepare(&mut self) -> Prepared {
        let request = super::request(&self.guest, self.session);
        self.guest.queues[0].prepare(&request).unwrap()
    }

    /// Writes into a request's input.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        self.guest.memory().write(address, bytes).unwrap();
    }

    /// Offers a request and waits for what becomes of it.
    pub(crate) fn offer(&mut self, prepared: Prepared) -> Fate {
        self.guest.queues[0].offer(prepared).unwrap();
        self.guest.queues[0].ring.publish().unwrap();
        self.fate()
    }

    /// What becomes of the chain that is next to come back.
    pub(crate) fn fate(&mut self) -> Fate {
        self.fate_within(PATIENCE)
    }

    /// The same, where it may well stay away.
    pub(crate) fn fate_soon(&mut self) -> Fate {
        self.fate_within(SILENCE)
    }

    /// What has become of it by now.
    pub(crate) fn fate_now(&mut self) -> Fate {
        self.fate_within(Duration::ZERO)
    }

    fn fate_within(&mut self, patience: Duration) -> Fate {
        let queue = &mut self.guest.queues[0];
        let Some((prepared, written)) = queue.done(patience).unwrap() else { return Fate::Silent };
        let reply = queue.reply(&prepared, written).unwrap();
        if is_known(&reply) {
            return Fate::Done;
        }
        let bytes = [&reply.output[..], &reply.status].concat();
        let changed: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0xff).collect();
        match (written, &changed[..]) {
            (0, []) => Fate::Empty,
            (1, [status]) => Fate::Refused(*status),
            _ => panic!("{reply:?}"),
        }
    }

    /// The guest itself is served as before.
    pub(crate) fn assert_guest_is_served(&mut self) {
        assert_session_serves(&mut self.guest, self.session);
        self.assert_neighbour_is_served();
    }

    /// The neighbour is served as before.
    pub(crate) fn assert_neighbour_is_served(&mut self) {
        assert!(self.server.is_running());
        assert_session_serves(&mut self.neighbour, self.neighbours_session);
    }

    /// The device is broken: it takes nothing any more, and says so where the guest can see it. The neighbour is served as before, and so
    /// is the guest when it has connected anew.
    pub(crate) fn assert_is_broken(mut self) {
        self.assert_neighbour_is_served();
        if self.setup.form == gantry_vhost_user_front::Form::Generic {
            assert_eq!(self.guest.config().unwrap().status, 0, "VIRTIO_CRYPTO_S_HW_READY is gone");
        }
        let prepared = self.prepare();
        self.guest.queues[0].offer(prepared).unwrap();
        self.guest.queues[0].ring.publish().unwrap();
        assert_eq!(self.fate_soon(), Fate::Silent);
        self.assert_neighbour_is_served();
        self.assert_serves_anew();
    }

    /// The guest's connection ends, and the next one finds the device as new.
    pub(crate) fn assert_serves_anew(mut self) {
        self.guest.connection.end();
        super::assert_served(&mut Guest::connect(&self.socket(), &self.setup).unwrap());
        self.assert_neighbour_is_served();
    }
}
