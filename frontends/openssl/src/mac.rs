//! What a MAC's context knows beside the host's own: what it is, its key, and its message.

use gantry_core::{Algorithm, Operation, SessionParams};
use zeroize::Zeroizing;

use crate::boundary::{Answer, Answers, Wrapped};
use crate::digest::Digesting;
use crate::framework::{Done, Side};
use crate::gains::Gain;
use crate::key::{self, Key};
use crate::sizes::Sizes;
use crate::table::{Mac, Mode};

/// The only length of nonces that is led elsewhere.
const NONCE: usize = 12;

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "four facts, each by itself")]
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
    /// Poly1305: a device has had the message of this key, which is for no other one.
    spent: bool,
    /// First pieces of other sizes are the host's, without a question.
    asked: Sizes,
    message: Digesting,
}

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
            spent: false,
            asked: wrapped.asked(),
            message: Digesting::default(),
        }
    }

    /// Pieces of other numbers of bytes can go straight to the host.
    #[inline(always)]
    pub(crate) fn elsewhere(&self) -> Sizes {
        if self.watched || self.ended {
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

    /// A device has the message now. Whether the host still has a key of it that is for nothing else.
    pub(crate) fn spend(&mut self) -> bool {
        self.mac == Mac::Poly1305 && !std::mem::replace(&mut self.spent, true)
    }

    /// Whether the key is used up, so that no other message begins under it.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
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
        self.spent = false;
        self.message.new_key();
        if let Some(gain) = self.gain(wrapped) {
            gain.new_key();
            self.asked = gain.elsewhere();
        }
        self.mac != Mac::Gmac
    }

    #[inline(always)]
    fn gain<'w>(&self, wrapped: &'w Wrapped) -> Option<&'w Gain> {
        Some(wrapped.opened()?.gain(self.algorithm?, Operation::Mac))
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
        if let Some(gain) = self.gain(wrapped) {
            self.asked = gain.elsewhere();
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
