//! ECB, CBC, CTR and ChaCha20: what a device takes are whole blocks, where the host holds none back.
//!
//! The host's context is behind while a device is at work, and is brought up to date with the chain as its nonce before it is
//! needed again. So that nobody sees that, the nonce of the message is kept here.

use gantry_core::Request;
use gantry_core::route::SizeSet;

use crate::boundary::{Answers, Host, Io, Questions, Way, Wrapped};
use crate::framework::{Done, Side};
use crate::keyed::Keyed;
use crate::table::Chain;

const CHACHA_BLOCK: usize = 64;

/// Whole blocks of a message that a device can take, and what they begin with.
pub(crate) struct Ready {
    chain: [u8; 16],
    /// Bytes of the nonce.
    size: usize,
    /// Bytes of data.
    pub(crate) whole: usize,
    unit: usize,
    /// The last block of the input.
    last: [u8; 16],
}

impl Ready {
    /// The nonce.
    pub(crate) fn iv(&self) -> &[u8] {
        &self.chain[..self.size]
    }
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "four facts, each by itself")]
pub(crate) struct Chained {
    mode: Chain,
    keyed: Keyed,
    /// What the message began with.
    iv: [u8; 16],
    /// What the next block begins with, while the host is behind.
    chain: [u8; 16],
    /// Bytes of a nonce, and of a block; 0 before there is a nonce.
    block: usize,
    behind: bool,
    /// The host has another nonce than the message began with.
    moved: bool,
    /// The host was told where in a block it stands, until it is initialised again.
    within: bool,
    padding: bool,
    /// Records of TLS, each with padding of its own: their version, or 0.
    tls: usize,
}

impl Chained {
    pub(crate) fn new(mode: Chain) -> Self {
        Self {
            mode,
            keyed: Keyed::default(),
            iv: [0; 16],
            chain: [0; 16],
            block: if mode == Chain::Ecb { 16 } else { 0 },
            behind: false,
            moved: false,
            within: false,
            padding: true,
            tls: 0,
        }
    }

    /// Calls with other numbers of bytes can go straight to the host.
    pub(crate) fn elsewhere(&self, wrapped: &Wrapped) -> SizeSet {
        if self.behind { SizeSet::ALL } else { self.keyed.elsewhere(wrapped) }
    }

    /// Whether the host stands where the message does.
    pub(crate) fn is_hosts(&self) -> bool {
        !self.behind
    }

    /// The host will be initialised without a nonce: it falls back on the one that the message began with, or goes on.
    pub(crate) fn before_init(&mut self, host: &Host) -> i32 {
        if !self.moved && !self.behind {
            return 1;
        }
        if matches!(self.mode, Chain::Ctr | Chain::ChaCha) {
            return self.catch_up(host);
        }
        self.behind = false;
        host.restart(self.keyed.encrypt, &self.iv[..self.block])
    }

    /// The host has refused an initialisation, and goes on from wherever it stands, perhaps under that nonce.
    pub(crate) fn refused(&mut self) {
        self.keyed.forget();
        (self.behind, self.moved) = (false, false);
        if self.mode != Chain::Ecb {
            self.block = 0;
        }
    }

    pub(crate) fn initialised(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        self.keyed.initialised(wrapped, encrypt, key);
        self.within = false;
        if let Some(iv) = iv
            && let Some(place) = self.iv.get_mut(..iv.len())
            && self.mode != Chain::Ecb
        {
            place.copy_from_slice(iv);
            self.block = iv.len();
            self.moved = false;
        } else if self.mode == Chain::ChaCha {
            // It goes on, perhaps in the middle of a block.
            self.block = 0;
        }
        self.behind = false;
    }

    pub(crate) fn data(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>, fed: usize) -> i32 {
        let Some(ready) = self.ready(host, way, io, fed) else { return self.hosts(wrapped, host, way, io) };
        match self.keyed.device(wrapped, &mut io.first(ready.whole), ready.iv()) {
            Done::Good => self.done(host, way, io, &ready),
            Done::Bad => io.refused(),
            Done::Host if self.catch_up(host) == 1 => host.data(way, io),
            Done::Host => 0,
        }
    }

    /// The whole blocks, if a device can take them now. `fed` bytes went by before.
    pub(crate) fn ready(&mut self, host: &Host, way: Way, io: &Io<'_>, fed: usize) -> Option<Ready> {
        if self.tls != 0 {
            return None;
        }
        let block = self.block;
        // Padding: the host holds the last block back when it decrypts, because it may be the last one of all.
        let blocks = matches!(self.mode, Chain::Ecb | Chain::Cbc);
        let holds_back = way == Way::Update && self.padding && !self.keyed.encrypt && blocks;
        let unit = if self.mode == Chain::ChaCha { CHACHA_BLOCK } else { block };
        let whole = if block == 0 { 0 } else { io.len() - io.len() % unit };
        let hosts = holds_back || self.within || (blocks && self.keyed.is_turned());
        if hosts || whole == 0 || !fed.is_multiple_of(unit) || !io.has_output() || !io.has_input() {
            return None;
        }
        if self.mode == Chain::ChaCha {
            // Not every release of the host says where it stands, but it began with the nonce.
            self.chain = count(self.iv, fed / unit);
            // Within a request the low half of the counter does not overflow.
            let low = u32::from_le_bytes([self.chain[0], self.chain[1], self.chain[2], self.chain[3]]);
            if whole / unit > (u32::MAX - low) as usize {
                return None;
            }
        } else if self.mode == Chain::Cbc && fed == 0 {
            // However the host was initialised, a message begins with its nonce.
            self.chain = self.iv;
        } else if !self.behind && self.mode != Chain::Ecb {
            // What went by before was the host's: it knows where the chain stands.
            match block {
                8 => self.chain[..8].copy_from_slice(&host.chain::<8>()?),
                _ => self.chain = host.chain()?,
            }
        }
        let size = if self.mode == Chain::Ecb { 0 } else { block };
        let last = last_block(&io.input()[..whole], block);
        Some(Ready { chain: self.chain, size, whole, unit, last })
    }

    /// A device has done the whole blocks.
    pub(crate) fn done(&mut self, host: &Host, way: Way, io: &mut Io<'_>, ready: &Ready) -> i32 {
        let whole = ready.whole;
        self.advance(ready.last, last_block(io.first(whole).output(), self.block), whole / ready.unit);
        // A stream cipher's bytes after the last whole block, or those that wait for more.
        let mut rest = io.after(whole);
        if !rest.is_empty() && (self.catch_up(host) != 1 || host.data(way, &mut rest) != 1) {
            return 0;
        }
        let more = if rest.is_empty() { 0 } else { rest.written() };
        io.done(whole + more)
    }

    /// The same for many messages at a time. Whether a device was asked.
    pub(crate) fn batch(&mut self, wrapped: &Wrapped, requests: &mut [Request<'_>]) -> bool {
        self.keyed.batch(wrapped, requests)
    }

    pub(crate) fn encrypts(&self) -> bool {
        self.keyed.encrypt
    }

    /// Data that no device takes.
    fn hosts(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        if io.has_output() && io.has_input() {
            wrapped.count(self.keyed.operation(), Side::Host, io.len());
        }
        if self.catch_up(host) == 1 { host.data(way, io) } else { 0 }
    }

    /// What the next block begins with, after `blocks` blocks of which these are the last ones of input and output.
    fn advance(&mut self, input: [u8; 16], output: [u8; 16], blocks: usize) {
        match self.mode {
            Chain::Ecb => return,
            Chain::Cbc => self.chain = if self.keyed.encrypt { output } else { input },
            Chain::Ctr => self.chain = u128::from_be_bytes(self.chain).wrapping_add(blocks as u128).to_be_bytes(),
            Chain::ChaCha => self.chain = count(self.chain, blocks),
        }
        self.behind = true;
    }

    pub(crate) fn finish(&mut self, host: &Host, io: &mut Io<'_>) -> i32 {
        if self.catch_up(host) == 1 { host.finish(io) } else { 0 }
    }

    /// The host has taken parameters of which only the padding is looked at.
    pub(crate) fn told_padding(&mut self, told: Answers<'_>) {
        if let Some(padding) = told.number(c"padding") {
            self.padding = padding != 0;
        }
    }

    pub(crate) fn told(&mut self, told: Answers<'_>) {
        self.told_padding(told);
        if let Some(version) = told.number(c"tls-version") {
            self.tls = version;
        }
        self.within |= told.has(c"num");
    }

    pub(crate) fn ask(&mut self, host: &Host, mut questions: Questions<'_>) -> i32 {
        if self.catch_up(host) != 1 {
            return 0;
        }
        // Of ChaCha20's the host says nothing.
        if !self.moved || self.mode == Chain::ChaCha {
            return host.ask(questions);
        }
        let result = host.ask(questions.again());
        questions.overwrite(c"iv", &self.iv[..self.block]);
        result
    }

    /// Brings the host to where the message stands.
    pub(crate) fn catch_up(&mut self, host: &Host) -> i32 {
        if !self.behind {
            return 1;
        }
        self.behind = false;
        self.moved = true;
        host.restart(self.keyed.encrypt, &self.chain[..self.block])
    }
}

/// ChaCha20's counter before its nonce, so many blocks later. The host lets it overflow into the nonce after 32 bits, not further.
fn count(mut chain: [u8; 16], blocks: usize) -> [u8; 16] {
    let (counter, _) = chain.split_at_mut(8);
    let now = u64::from_le_bytes(std::array::from_fn(|at| counter[at])).wrapping_add(blocks as u64);
    counter.copy_from_slice(&now.to_le_bytes());
    chain
}

/// The last `block` bytes, of which there are as many.
fn last_block(data: &[u8], block: usize) -> [u8; 16] {
    let mut last = [0; 16];
    last[..block].copy_from_slice(&data[data.len() - block..]);
    last
}
