//! What a MAC's context knows beside the host's own: what it is, its key, and its message.

use gantry::{Algorithm, Operation, SessionParams};
use zeroize::Zeroizing;

use crate::boundary::{Answer, Answers, Wrapped};
use crate::choice::{Choice, Side, Sizes};
use crate::digest::Digesting;
use crate::framework::Done;
use crate::key::{self, Key};
use crate::table::{Mac, Mode};

/// The only length of nonces that is led elsewhere.
const NONCE: usize = 12;

#[derive(Clone)]
pub(crate) struct Macing {
    mac: Mac,
    /// What the next key will be for.
    named: Option<Algorithm>,
    /// What the key is for; `None` while it is unknown here.
    algorithm: Option<Algorithm>,
    key: Key<{ key::MAC }>,
    /// GMAC's, for one message.
    nonce: [u8; NONCE],
    /// Something was said that only the host understands.
    foreign: bool,
    /// A device has ended the message, of which the host knows nothing.
    ended: bool,
    /// Every call is counted, or made to fail.
    watched: bool,
    hosts_key: HostsKey,
    /// First pieces of other sizes are the host's, without a question.
    asked: Sizes,
    message: Digesting,
}

/// Whether the host has the key. Poly1305's is for one message, and nothing can be known of the host's context but by ending that: so the
/// host gets it when the message is its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HostsKey {
    #[default]
    There,
    /// As soon as the host has anything to do with the message.
    Owed,
    /// The message is a device's.
    Withheld,
}

/// Bytes of Poly1305's key.
pub(crate) const POLY1305_KEY: usize = 32;

impl Macing {
    #[inline(always)]
    pub(crate) fn new(wrapped: &Wrapped) -> Self {
        // A row of MACs has no other mode.
        let mac = if let Mode::Mac(mac) = wrapped.row().mode { mac } else { Mac::Hmac };
        Self {
            mac,
            named: (mac == Mac::Poly1305).then_some(Algorithm::Poly1305),
            algorithm: None,
            key: Key::default(),
            nonce: [0; NONCE],
            foreign: false,
            ended: false,
            watched: wrapped.watches(),
            hosts_key: HostsKey::default(),
            asked: wrapped.asked(None),
            message: Digesting::default(),
        }
    }

    /// Pieces of other numbers of bytes can go straight to the host.
    #[inline(always)]
    pub(crate) fn elsewhere(&self) -> Sizes {
        if self.watched || self.ended || self.hosts_key != HostsKey::There {
            Sizes::ALL
        } else if self.ours().is_some() {
            self.message.elsewhere_of(self.asked)
        } else {
            Sizes::NONE
        }
    }

    /// What it is, where it can be led elsewhere or is there already.
    #[inline(always)]
    fn ours(&self) -> Option<Algorithm> {
        self.algorithm.filter(|_| !self.foreign || !self.message.is_hosts())
    }

    /// Whether the next message can begin with nothing but the host's consent, or with a nonce of so many bytes alone: there is a key, and nothing is
    /// on a device.
    #[inline(always)]
    pub(crate) fn goes_on(&self, nonce: Option<usize>) -> bool {
        let usual = match self.mac {
            Mac::Hmac | Mac::Cmac => nonce.is_none(),
            Mac::Gmac => nonce == Some(NONCE),
            Mac::Poly1305 => false,
        };
        usual && !self.watched && !self.foreign && self.algorithm.is_some() && self.message.is_on_no_device()
    }

    /// It has begun so: which pieces may be a device's.
    #[inline(always)]
    pub(crate) fn went_on(&mut self, nonce: Option<&[u8]>) -> Sizes {
        if let Some(Ok(nonce)) = nonce.map(TryInto::try_into) {
            self.nonce = nonce;
        }
        self.begin(true);
        self.asked
    }

    /// Whether a key can wait here until somebody has the message, and nothing is on a device.
    #[inline(always)]
    pub(crate) fn can_wait(&self) -> bool {
        self.mac == Mac::Poly1305 && self.message.is_on_no_device()
    }

    /// A message begins, with a key of which the host knows nothing.
    #[inline(always)]
    pub(crate) fn wait(&mut self, wrapped: &Wrapped, key: &[u8; POLY1305_KEY]) {
        self.take(wrapped, Some(key));
        self.hosts_key = HostsKey::Owed;
        self.begin(true);
    }

    /// Whether a first piece of so many bytes is the host's, which lacks the key.
    #[inline(always)]
    pub(crate) fn owes_for(&self, bytes: usize) -> bool {
        self.hosts_key == HostsKey::Owed && !self.watched && !self.asked.has(bytes)
    }

    /// What the host has to get before anything else: nothing, or a key; `Err` where it may have nothing of the message.
    #[inline(always)]
    pub(crate) fn owed(&mut self) -> Result<Option<(*const u8, usize)>, ()> {
        match self.hosts_key {
            HostsKey::There => Ok(None),
            HostsKey::Owed => {
                self.hosts_key = HostsKey::There;
                Ok(Some(self.key.place()))
            }
            HostsKey::Withheld => Err(()),
        }
    }

    /// A device has the message now. Whether the host has a key of it that is for nothing else.
    pub(crate) fn withhold(&mut self) -> bool {
        self.mac == Mac::Poly1305 && std::mem::replace(&mut self.hosts_key, HostsKey::Withheld) == HostsKey::There
    }

    /// A device has the message whose key this is.
    pub(crate) fn is_withheld(&self) -> bool {
        self.hosts_key == HostsKey::Withheld
    }

    /// The bytes of the MAC, where nobody can have said anything else.
    #[inline(always)]
    pub(crate) fn known_size(&self) -> Option<usize> {
        let known = self.algorithm.filter(|_| self.algorithm == self.named && !self.foreign);
        known.map(|algorithm| algorithm.info().tag.max)
    }

    /// The bytes of the MAC, where it is known here.
    pub(crate) fn size(&self) -> usize {
        self.algorithm.map_or(0, |algorithm| algorithm.info().tag.max)
    }

    /// The host has refused some of what was said, and nobody knows which.
    pub(crate) fn refused(&mut self) {
        self.foreign = true;
    }

    /// The host has been initialised, after its parameters. Whether a message begins.
    pub(crate) fn initialised(&mut self, wrapped: &Wrapped, key: Option<&[u8]>) -> bool {
        let begins = match key {
            Some(_) => self.take(wrapped, key),
            None => matches!(self.mac, Mac::Hmac | Mac::Cmac),
        };
        self.begin(begins)
    }

    /// The host has taken these parameters. Whether a message begins.
    pub(crate) fn told(&mut self, wrapped: &Wrapped, told: Answers<'_>) -> bool {
        let mut begins = false;
        let ([digest, cipher, key, iv], is_all) = told.of([c"digest", c"cipher", c"key", c"iv"]);
        self.foreign |= !is_all;
        let inside = match self.mac {
            Mac::Hmac => digest,
            Mac::Cmac | Mac::Gmac => cipher,
            Mac::Poly1305 => Answer::default(),
        };
        if inside.is_there() {
            self.named = inside.text().and_then(|name| self.mac.over(name));
            if self.mac == Mac::Gmac {
                // The cipher is another one at once, without key and nonce.
                self.algorithm = None;
                self.message = Digesting::default();
            }
        }
        if key.is_there() {
            begins |= self.take(wrapped, key.octets());
        }
        if iv.is_there() {
            let nonce = iv.octets().and_then(|iv| iv.try_into().ok());
            self.nonce = nonce.unwrap_or_default();
            self.ended = false;
            if nonce.is_some() {
                begins = true;
            } else {
                self.message = Digesting::default();
            }
        }
        self.begin(begins)
    }

    #[inline(always)]
    fn begin(&mut self, begins: bool) -> bool {
        if begins {
            self.ended = false;
            self.message.begin();
        }
        begins
    }

    /// A key. Whether a message begins with it: GMAC's do with their nonce.
    #[inline(always)]
    fn take(&mut self, wrapped: &Wrapped, key: Option<&[u8]>) -> bool {
        let kept = key.is_some_and(|key| self.key.set(key));
        self.algorithm = self.named.filter(|_| kept);
        self.hosts_key = HostsKey::There;
        self.message.new_key();
        if let Some(choice) = self.choice(wrapped) {
            choice.new_key();
            self.asked = choice.elsewhere();
        }
        self.mac != Mac::Gmac
    }

    #[inline(always)]
    fn choice<'w>(&self, wrapped: &'w Wrapped) -> Option<&'w Choice> {
        Some(wrapped.opened()?.choice(self.algorithm?, Operation::Mac))
    }

    /// The host must have the whole message.
    #[inline(always)]
    pub(crate) fn leave(&mut self) -> bool {
        self.message.leave()
    }

    /// What the host has to get before anything else of a message that it takes over.
    pub(crate) fn held(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        self.message.held()
    }

    pub(crate) fn update(&mut self, wrapped: &Wrapped, input: &[u8], fresh: bool) -> Done {
        if self.ended {
            return Done::Bad;
        }
        let Some(algorithm) = self.ours() else {
            wrapped.count(Operation::Mac, Side::Host, input.len());
            return Done::Host;
        };
        let key = &self.key;
        let params = || SessionParams::new(algorithm, &key.bytes());
        let done = self.message.update(wrapped, algorithm, params, input, fresh);
        if let Some(choice) = self.choice(wrapped) {
            self.asked = choice.elsewhere();
        }
        done
    }

    /// Writes the MAC.
    pub(crate) fn finish(&mut self, wrapped: &Wrapped, output: &mut [u8]) -> Done {
        if self.ended {
            return Done::Bad;
        }
        let iv = if self.mac == Mac::Gmac { &self.nonce[..] } else { &[] };
        let done = self.message.finish(wrapped, iv, output);
        self.ended = done != Done::Host;
        done
    }
}
