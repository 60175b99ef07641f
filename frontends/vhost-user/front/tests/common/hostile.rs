//! A hostile guest, and its neighbour, which must not be affected.

use std::path::PathBuf;
use std::time::Duration;

use gantry_vhost_user::Limits;
use gantry_vhost_user_front::queue::PreparedRequest;
use gantry_vhost_user_front::{Guest, Session, Setup};

use super::server::Server;
use super::{assert_session_serves, is_known_answer};

/// The time after which a chain counts as not completed.
const SHORT_CHAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// The time limit of a chain that must be completed.
const CHAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The outcome of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainOutcome {
    /// The device wrote this status and no other byte, and returned the chain. The status is in the last writable byte, or in the last
    /// one before the broken part of the chain.
    Refused(u8),
    /// The chain was returned without a byte written.
    Empty,
    /// The chain contains the known answer.
    Done,
    /// The chain was not returned.
    NotReturned,
}

/// A server, a hostile guest, and its neighbour.
pub(crate) struct Hostile {
    pub(crate) server: Server,
    pub(crate) guest: Guest,
    pub(crate) session: Session,
    neighbour: Guest,
    neighbours_session: Session,
    setup: Setup,
}

impl Hostile {
    /// Connects both guests, and checks that both are served.
    pub(crate) fn new(setup: &Setup) -> Self {
        let server = Server::new(&[Limits::default(), Limits::default()]);
        let mut guest = Guest::connect(&server.socket(0), setup).unwrap();
        let session = super::open_cbc(&mut guest);
        assert_session_serves(&mut guest, session);
        let mut neighbour = Guest::connect(&server.socket(1), &Setup::qemu()).unwrap();
        let neighbours_session = super::open_cbc(&mut neighbour);
        let mut hostile = Self { server, guest, session, neighbour, neighbours_session, setup: setup.clone() };
        hostile.assert_neighbour_is_served();
        hostile
    }

    /// Returns the path of the server's socket for the guest.
    pub(crate) fn socket(&self) -> PathBuf {
        self.server.socket(0)
    }

    /// Prepares the request of the known answer. The tests then damage the request.
    pub(crate) fn prepare(&mut self) -> PreparedRequest {
        let request = super::known_answer_request(&self.guest, self.session);
        self.guest.queues[0].prepare(&request).unwrap()
    }

    /// Writes into the guest's memory, for instance into the input of a request.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        self.guest.memory().write(address, bytes).unwrap();
    }

    /// Offers a request, and waits for its outcome.
    pub(crate) fn offer(&mut self, prepared: PreparedRequest) -> ChainOutcome {
        self.guest.queues[0].offer(prepared).unwrap();
        self.guest.queues[0].ring.publish().unwrap();
        self.outcome()
    }

    /// Waits for the outcome of the next chain.
    pub(crate) fn outcome(&mut self) -> ChainOutcome {
        self.outcome_within(CHAIN_TIMEOUT)
    }

    /// Waits briefly for the outcome of the next chain. The expected outcome may be [`ChainOutcome::NotReturned`].
    pub(crate) fn outcome_soon(&mut self) -> ChainOutcome {
        self.outcome_within(SHORT_CHAIN_TIMEOUT)
    }

    /// Returns the outcome of the next chain without waiting.
    pub(crate) fn outcome_now(&mut self) -> ChainOutcome {
        self.outcome_within(Duration::ZERO)
    }

    fn outcome_within(&mut self, timeout: Duration) -> ChainOutcome {
        let queue = &mut self.guest.queues[0];
        let Some((prepared, written)) = queue.wait_for_finished(timeout).unwrap() else {
            return ChainOutcome::NotReturned;
        };
        let reply = queue.take_reply(&prepared, written).unwrap();
        if is_known_answer(&reply) {
            return ChainOutcome::Done;
        }
        let bytes = [&reply.output[..], &reply.status].concat();
        let changed: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0xff).collect();
        match (written, &changed[..]) {
            (0, []) => ChainOutcome::Empty,
            (1, [status]) => ChainOutcome::Refused(*status),
            _ => panic!("{reply:?}"),
        }
    }

    /// Asserts that the guest and its neighbour are served.
    pub(crate) fn assert_guest_is_served(&mut self) {
        assert_session_serves(&mut self.guest, self.session);
        self.assert_neighbour_is_served();
    }

    /// Asserts that the neighbour is served.
    pub(crate) fn assert_neighbour_is_served(&mut self) {
        assert!(self.server.is_running());
        assert_session_serves(&mut self.neighbour, self.neighbours_session);
    }

    /// Asserts that the device is broken. It takes no requests, and its configuration says so if the back end implements the configuration.
    /// The neighbour is still served, and so is the guest after it has reconnected.
    pub(crate) fn assert_is_broken(mut self) {
        self.assert_neighbour_is_served();
        if self.setup.front_end == gantry_vhost_user_front::FrontEnd::Generic {
            assert_eq!(self.guest.config().unwrap().status, 0, "VIRTIO_CRYPTO_S_HW_READY is cleared");
        }
        let prepared = self.prepare();
        self.guest.queues[0].offer(prepared).unwrap();
        self.guest.queues[0].ring.publish().unwrap();
        assert_eq!(self.outcome_soon(), ChainOutcome::NotReturned);
        self.assert_neighbour_is_served();
        self.assert_serves_after_reconnect();
    }

    /// Ends the guest's connection, and asserts that the next connection finds a fresh device.
    pub(crate) fn assert_serves_after_reconnect(mut self) {
        self.guest.connection.shut_down();
        super::assert_served(&mut Guest::connect(&self.socket(), &self.setup).unwrap());
        self.assert_neighbour_is_served();
    }
}
