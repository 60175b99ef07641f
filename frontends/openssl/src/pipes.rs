//! Pipelines (OpenSSL 3.5 and later): up to 32 messages of AES-CBC under one key, each with a nonce of its own. What comes for all of
//! them at a time is one batch, where a device takes that; the rest goes message by message as it does without pipelines.

use gantry_core::Request;

use crate::boundary::{Host, Io, Way, Wrapped};
use crate::chain::{Chained, Ready};

/// The messages that a context has under way, which is itself none of them.
#[derive(Default)]
pub(crate) struct Pipes(Vec<Pipe>);

struct Pipe {
    host: Host,
    message: Chained,
    /// Bytes that went by.
    fed: usize,
}

/// What became of the whole blocks of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// They are to be done, message by message.
    Alone,
    Done,
    /// Nobody knows what is in the buffer now.
    Spoilt,
}

impl Clone for Pipes {
    /// Without pipes where the host has no more contexts: then no data of them is taken.
    fn clone(&self) -> Self {
        Self(several(self.0.iter().map(Pipe::duplicate)).unwrap_or_default())
    }
}

impl Pipe {
    fn duplicate(&self) -> Option<Self> {
        Some(Self { host: self.host.duplicate()?, message: self.message.clone(), fed: self.fed })
    }
}

impl Pipes {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// There are none any more.
    #[inline(always)]
    pub(crate) fn close(&mut self) {
        if !self.0.is_empty() {
            self.0.clear();
        }
    }

    /// A message for each nonce, under the key and with the padding of a context. Pipes that are there have them already.
    pub(crate) fn open<'c>(
        &mut self,
        wrapped: &Wrapped,
        (host, message): (&Host, &Chained),
        ivs: impl ExactSizeIterator<Item = &'c [u8]>,
    ) -> bool {
        if self.0.len() != ivs.len() {
            self.close();
            let pipe = || Some(Pipe { host: host.duplicate()?, message: message.clone(), fed: 0 });
            self.0 = several((0..ivs.len()).map(|_| pipe())).unwrap_or_default();
        }
        let encrypt = message.encrypts();
        let good = self.0.len() == ivs.len()
            && self.0.iter_mut().zip(ivs).all(|(pipe, iv)| {
                pipe.fed = 0;
                pipe.message.initialised(wrapped, encrypt, None, Some(iv));
                pipe.host.restart(encrypt, iv) == 1
            });
        if !good {
            self.close();
        }
        good
    }

    /// Tells the context of each message something that the host has taken for the one that they came from.
    pub(crate) fn tell(&mut self, tell: impl Fn(&Host, &mut Chained) -> bool) -> bool {
        self.0.iter_mut().all(|pipe| tell(&pipe.host, &mut pipe.message))
    }

    /// The next data of each message. `lead` is of the context that they came from, with the session.
    pub(crate) fn update(&mut self, wrapped: &Wrapped, lead: &mut Chained, ios: &mut [Io<'_>]) -> bool {
        let bytes: usize = ios.iter().map(Io::len).sum();
        if !wrapped.asked().has(bytes / ios.len().max(1)) {
            return self.alone(wrapped, ios);
        }
        let ready: Vec<Option<Ready>> = (self.0.iter_mut().zip(&*ios))
            .map(|(pipe, io)| pipe.message.ready(&pipe.host, Way::Update, io, pipe.fed))
            .collect();
        let apart = Io::are_apart(ios);
        let data = ios.iter_mut().zip(&ready).map(|(io, ready)| Some((io, ready.as_ref().filter(|_| apart)?)));
        let blocks = batch(lead.encrypts(), data, |requests| lead.batch(wrapped, requests));
        let each = self.0.iter_mut().zip(ios).zip(ready).zip(blocks);
        // All of them, whatever becomes of one: each goes on from where the others stand.
        each.fold(true, |good, (((pipe, io), ready), blocks)| {
            let Pipe { host, message, fed } = pipe;
            let bytes = io.len();
            let done = match (blocks, ready) {
                (Blocks::Done, Some(ready)) => message.done(host, Way::Update, io, &ready),
                (Blocks::Spoilt, _) => 0,
                _ if bytes == 0 => io.done(0),
                _ => message.data(wrapped, host, Way::Update, io, *fed),
            };
            *fed = fed.wrapping_add(bytes);
            good && done == 1
        })
    }

    /// The same, message by message, for data too short to gain together.
    fn alone(&mut self, wrapped: &Wrapped, ios: &mut [Io<'_>]) -> bool {
        self.0.iter_mut().zip(ios).fold(true, |good, (pipe, io)| {
            let Pipe { host, message, fed } = pipe;
            let bytes = io.len();
            let hosts = message.is_hosts() && !wrapped.watches() && !message.elsewhere(wrapped).has(bytes);
            let done = match bytes {
                0 => io.done(0),
                _ if hosts => host.data(Way::Update, io),
                _ => message.data(wrapped, host, Way::Update, io, *fed),
            };
            *fed = fed.wrapping_add(bytes);
            good && done == 1
        })
    }

    /// The end of each message.
    pub(crate) fn finish(&mut self, ios: &mut [Io<'_>]) -> bool {
        let each = self.0.iter_mut().zip(ios);
        each.fold(true, |good, (pipe, io)| good & (pipe.message.finish(&pipe.host, io) == 1))
    }
}

/// All of them, in a place that they never leave: each has a key in it, which a vector that grows would leave behind.
fn several(pipes: impl ExactSizeIterator<Item = Option<Pipe>>) -> Option<Vec<Pipe>> {
    let mut several = Vec::with_capacity(pipes.len());
    for pipe in pipes {
        several.push(pipe?);
    }
    Some(several)
}

/// Makes a batch of the whole blocks of messages, where there are any, and lets `run` run it, if that is for a device.
pub(crate) fn batch<'b, 'c: 'b>(
    encrypt: bool,
    data: impl ExactSizeIterator<Item = Option<(&'b mut Io<'c>, &'b Ready)>>,
    run: impl FnOnce(&mut [Request<'_>]) -> bool,
) -> Vec<Blocks> {
    let mut blocks = vec![Blocks::Alone; data.len()];
    let (mut requests, mut places) = (Vec::with_capacity(data.len()), Vec::with_capacity(data.len()));
    for (place, data) in data.enumerate() {
        if let Some((io, ready)) = data {
            let in_place = io.in_place();
            if let Some(data) = io.buffers_of(ready.whole) {
                let request = if encrypt { Request::encrypt } else { Request::decrypt };
                requests.push(request(ready.iv(), data));
                places.push((place, in_place));
            }
        }
    }
    if !run(&mut requests) {
        return blocks;
    }
    for ((place, in_place), request) in places.into_iter().zip(&requests) {
        blocks[place] = match request.outcome() {
            Some(gantry_core::Outcome::Done) => Blocks::Done,
            // A device that fails leaves the data as they were, unless it panics.
            _ if in_place => Blocks::Spoilt,
            _ => Blocks::Alone,
        };
    }
    blocks
}
