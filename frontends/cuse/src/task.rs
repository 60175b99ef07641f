//! A request as a sequence of steps. Each step is at most one request to core, and requests of several tasks share a batch if possible.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use gantry_abi_cryptodev as abi;
use gantry_core::{Outcome, Request, Session, Stream};
use gantry_protocols::tls::{MacSearch, without_padding};
use nix::errno::Errno;
use zeroize::Zeroizing;

use crate::plan::{Form, Job, finishes};
use crate::session::{Chain, Cipher, CryptoSession, Hash, State};
use crate::wiped::Wiped;

/// A job, with its session, its state and its data.
pub(crate) struct Task {
    crypto: Arc<CryptoSession>,
    state: State,
    job: Job,
    /// The bytes read from the caller. The data is processed in place.
    input_bytes: Wiped,
    steps: VecDeque<Step>,
    step: Option<Step>,
    chain: Option<Chain>,
    digest: Zeroizing<[u8; abi::MAX_DIGEST]>,
    /// The session of an AEAD whose tag length differs from the default.
    session: Option<Session>,
    /// The TLS record being opened.
    record: Option<MacSearch>,
    /// A copy of the record's MAC stream, finished at a possible end of the message.
    trial: Option<Stream>,
    failed: Option<Errno>,
}

/// Position of the output length in the structures of CIOCCRYPT and CIOCAUTHCRYPT.
const LENGTH_FIELD: Range<usize> = 8..12;

#[derive(Clone, Debug)]
enum Step {
    /// Digest of a whole message at once.
    Digest(Range<usize>),
    Update(Range<usize>),
    Finish,
    Cipher(Range<usize>),
    Seal,
    Open,
    /// Encryption of a TLS record: appends MAC and padding to the data.
    CloseRecord,
    /// Decryption of a TLS record: finds the padding and the MAC.
    OpenRecord,
    /// The MAC of a record's message that ends at this offset.
    TryMac(usize),
    /// Compares the MAC of a packet.
    Verify,
}

impl Task {
    pub(crate) fn new(crypto: Arc<CryptoSession>, mut state: State, job: Job, input_bytes: Wiped) -> Self {
        let mut session = None;
        let mut failed = None;
        let (hashes, ciphers) = (crypto.hash.is_some(), crypto.cipher.is_some());
        if !job.iv.is_empty() {
            let iv = &input_bytes[job.iv.clone()];
            state.iv[..iv.len()].copy_from_slice(iv);
        }
        let data = job.data.clone();
        let mut steps = Vec::with_capacity(5);
        match &job.form {
            Form::Plain => {
                if hashes && (job.flags == 0 || job.flags & abi::COP_FLAG_RESET != 0) {
                    state.stream = None;
                }
                let ends = finishes(job.flags, data.len());
                if ciphers && !job.encrypt && !data.is_empty() {
                    steps.push(Step::Cipher(data.clone()));
                }
                if hashes && ends && state.stream.is_none() {
                    steps.push(Step::Digest(data.clone()));
                } else if hashes {
                    steps.push(Step::Update(data.clone()));
                    steps.extend(ends.then_some(Step::Finish));
                }
                if ciphers && job.encrypt && !data.is_empty() {
                    steps.push(Step::Cipher(data));
                }
            }
            Form::Aead { tag, .. } => {
                if let Some(cipher) = &crypto.cipher {
                    session = cipher.session.as_ref().and_then(|session| with_tag(session, *tag));
                }
                let nonce = crypto.cipher.as_ref().and_then(|cipher| nonce(cipher, &state.iv));
                failed = (session.is_none() || nonce.is_none()).then_some(Errno::EINVAL);
                steps.push(if job.encrypt { Step::Seal } else { Step::Open });
            }
            Form::Tls { aad, .. } => {
                state.stream = None;
                let mac = [Step::Update(aad.clone()), Step::Update(data.clone()), Step::Finish];
                let mac = mac.into_iter().filter(|_| hashes);
                if job.encrypt {
                    steps.extend(mac);
                    steps.push(Step::CloseRecord);
                } else {
                    steps.extend([Step::Cipher(data), Step::OpenRecord]);
                }
            }
            Form::Srtp { packet, .. } => {
                state.stream = None;
                let mac = hashes.then(|| Step::Digest(packet.clone()));
                if job.encrypt {
                    steps.extend((!data.is_empty()).then_some(Step::Cipher(data)));
                    steps.extend(mac);
                } else {
                    steps.extend(mac);
                    steps.extend(hashes.then_some(Step::Verify));
                    steps.push(Step::Cipher(data));
                }
            }
        }
        let mut task = Self {
            steps: steps.into(),
            step: None,
            chain: None,
            digest: Zeroizing::new([0; abi::MAX_DIGEST]),
            record: None,
            trial: None,
            crypto,
            state,
            job,
            input_bytes,
            session,
            failed,
        };
        task.reserve_padding();
        task
    }

    /// Returns the state for the next request of the session.
    pub(crate) fn into_state(self) -> State {
        self.state
    }

    pub(crate) fn session_id(&self) -> u32 {
        self.job.session
    }

    /// Advances to the next step that needs a device. Returns `false` if there is none. `batch_size` is the number of
    /// tasks that run side by side.
    pub(crate) fn advance(&mut self, batch_size: usize) -> bool {
        while self.failed.is_none() {
            self.step = self.steps.pop_front();
            match self.step.clone() {
                None => return false,
                Some(Step::CloseRecord) => self.close_record(),
                Some(Step::OpenRecord) => self.open_record(),
                Some(Step::Verify) => self.verify(),
                Some(Step::Update(_)) if self.state.stream.is_none() => {
                    let hash = self.crypto.hash.as_ref();
                    self.state.stream = hash.and_then(|hash| hash.session.stream(batch_size).ok());
                    if self.state.stream.is_some() {
                        return true;
                    }
                    self.failed = Some(Errno::EIO);
                }
                Some(Step::TryMac(_)) => {
                    self.trial.clone_from(&self.state.stream);
                    return true;
                }
                Some(Step::Cipher(range)) => {
                    if let Some(cipher) = &self.crypto.cipher {
                        if cipher.session.is_none() {
                            continue;
                        }
                        let range = self.padded(cipher, &range);
                        self.chain = Some(Chain::before(cipher, self.job.encrypt, &self.input_bytes[range]));
                    }
                    return true;
                }
                Some(_) => return true,
            }
        }
        false
    }

    /// Appends zeros to the data if its chain requires them and the data comes last.
    fn reserve_padding(&mut self) {
        if let Some(cipher) = &self.crypto.cipher
            && matches!(self.job.form, Form::Plain | Form::Tls { .. })
        {
            let end = self.job.data.end;
            self.input_bytes.resize(end + Chain::padding(cipher, self.job.data.len()));
        }
    }

    /// Appends MAC and padding to the data (RFC 5246, 6.2.3.2): every padding byte is the padding's length less one.
    fn close_record(&mut self) {
        let Form::Tls { tag, .. } = self.job.form else { return };
        let Some(cipher) = &self.crypto.cipher else { return };
        let (data, block) = (&mut self.job.data, cipher.row.block);
        self.input_bytes.resize(data.end);
        self.input_bytes.append(&self.digest[..tag]);
        if block > 1 {
            let missing = block - (data.len() + tag) % block;
            self.input_bytes.append(&[(missing - 1) as u8; 256][..missing]);
        }
        data.end = self.input_bytes.len();
        self.steps.push_front(Step::Cipher(data.clone()));
        self.reserve_padding();
    }

    /// Starts the search for padding and MAC, which computes the MAC of every message that the record may hold.
    fn open_record(&mut self) {
        let Form::Tls { aad, tag } = &self.job.form else { return };
        let Some(cipher) = &self.crypto.cipher else { return };
        let data = self.job.data.clone();
        if self.crypto.hash.is_none() {
            if cipher.row.block > 1 {
                self.set_length(without_padding(&self.input_bytes[data]) as u32);
            }
            return;
        }
        match MacSearch::new(&self.input_bytes[data.clone()], cipher.row.block, *tag) {
            None => self.failed = Some(Errno::EBADMSG),
            Some(search) => {
                let first = search.places().start;
                let message = data.start..data.start + first;
                self.steps = [Step::Update(aad.clone()), Step::Update(message), Step::TryMac(first)].into();
                self.record = Some(search);
            }
        }
    }

    /// Compares the MAC of a message that ends at `place`, and continues with the next possible end.
    fn compare_mac(&mut self, place: usize) {
        let Some(search) = &mut self.record else { return };
        let data = self.job.data.clone();
        search.compare(&self.input_bytes[data.clone()], place, &*self.digest);
        if place + 1 < search.places().end {
            let next = data.start + place;
            self.steps = [Step::Update(next..next + 1), Step::TryMac(place + 1)].into();
            return;
        }
        self.state.stream = None;
        match search.message() {
            Some(length) => self.set_length(length),
            None => self.failed = Some(Errno::EBADMSG),
        }
    }

    fn set_length(&mut self, bytes: u32) {
        self.job.answer[LENGTH_FIELD].copy_from_slice(&bytes.to_ne_bytes());
    }

    fn verify(&mut self) {
        let Form::Srtp { received_tag, .. } = &self.job.form else { return };
        if !gantry_core::tags_equal(&self.input_bytes[received_tag.clone()], &self.digest[..received_tag.len()]) {
            self.failed = Some(Errno::EBADMSG);
        }
    }

    /// Extends a range by the zeros that reveal the end of the chain.
    fn padded(&self, cipher: &Cipher, range: &Range<usize>) -> Range<usize> {
        let padding = if range.end == self.job.data.end { Chain::padding(cipher, range.len()) } else { 0 };
        range.start..(range.end + padding).min(self.input_bytes.len())
    }

    /// Returns the session of this step's request.
    fn session_of_step(&self) -> Option<Session> {
        match self.step.as_ref()? {
            Step::Digest(_) => self.crypto.hash.as_ref().map(|hash| hash.session.clone()),
            // A copied message belongs to the session of its origin if that session has keys.
            Step::Update(_) | Step::Finish | Step::TryMac(_) => self.state.stream.as_ref().map(Stream::session),
            Step::Cipher(_) => self.crypto.cipher.as_ref().and_then(|cipher| cipher.session.clone()),
            _ => self.session.clone(),
        }
    }

    pub(crate) fn request(&mut self) -> Option<Request<'_>> {
        let step = self.step.clone()?;
        if let Step::Cipher(range) = &step {
            let cipher = self.crypto.cipher.as_ref()?;
            let (range, iv) = (self.padded(cipher, range), &self.state.iv[..cipher.row.iv]);
            let data = &mut self.input_bytes[range];
            return Some(if self.job.encrypt { Request::encrypt(iv, data) } else { Request::decrypt(iv, data) });
        }
        let digest_bytes = self.crypto.hash.as_ref().map_or(0, Hash::bytes);
        let Self { state, trial, job, input_bytes, digest, crypto, .. } = self;
        Some(match (step, &job.form) {
            (Step::Digest(range), _) => {
                let keyed = crypto.hash.as_ref()?.row.algorithm.kind() == gantry_core::Kind::Mac;
                let message = &input_bytes[range];
                let digest = &mut digest[..digest_bytes];
                if keyed { Request::mac(message, digest) } else { Request::digest(message, digest) }
            }
            (Step::Update(range), _) => Request::update(state.stream.as_mut()?, &input_bytes[range]),
            (Step::Finish, _) => Request::finish(state.stream.as_mut()?, &mut digest[..digest_bytes]),
            (Step::TryMac(_), _) => Request::finish(trial.as_mut()?, &mut digest[..digest_bytes]),
            (Step::Seal | Step::Open, Form::Aead { aad, tag }) => {
                let (aad, tag, cipher) = (aad.clone(), *tag, crypto.cipher.as_ref()?);
                let nonce = nonce(cipher, &state.iv)?;
                let sealed = job.data.clone();
                let (before, behind) = input_bytes.split_at_mut(sealed.end);
                // Associated data is placed behind the data, or absent.
                let aad = if aad.is_empty() { &[][..] } else { &behind[aad.start - sealed.end..aad.end - sealed.end] };
                let data = &mut before[sealed.start..];
                if job.encrypt {
                    Request::seal(nonce, aad, data, &mut digest[..tag])
                } else {
                    let (data, received_tag) = data.split_at_mut(sealed.len() - tag);
                    Request::open(nonce, aad, data, received_tag)
                }
            }
            _ => return None,
        })
    }

    /// Takes the outcome of the request; `None` if no device could run it.
    pub(crate) fn settle(&mut self, outcome: Option<Outcome>) {
        let ccm = self.crypto.cipher.as_ref().is_some_and(|cipher| cipher.row.number == 51);
        self.failed = match outcome {
            Some(Outcome::Done) => None,
            Some(Outcome::BadTag) => Some(Errno::EBADMSG),
            Some(Outcome::BadLength) if ccm => Some(Errno::EOVERFLOW),
            Some(_) => Some(Errno::EINVAL),
            None => Some(Errno::EIO),
        };
        match (&self.step, self.chain.take()) {
            (Some(Step::Cipher(range)), Some(chain)) if self.failed.is_none() => {
                if let Some(cipher) = &self.crypto.cipher {
                    let range = self.padded(cipher, range);
                    chain.after(cipher, &self.input_bytes[range], &mut self.state.iv);
                }
            }
            (Some(Step::Finish | Step::Digest(_)), _) => self.state.stream = None,
            (Some(Step::Update(_) | Step::TryMac(_)), _) if self.failed.is_some() => self.state.stream = None,
            (&Some(Step::TryMac(place)), _) => self.compare_mac(place),
            _ => {}
        }
    }

    pub(crate) fn run(&mut self) {
        side_by_side([self]);
    }

    /// Returns the parts of the answer in the order of the planned ranges, or an errno.
    pub(crate) fn result(&self) -> Result<Vec<&[u8]>, Errno> {
        if let Some(errno) = self.failed {
            return Err(errno);
        }
        let data = &self.input_bytes[self.job.data.clone()];
        let mut parts = Vec::with_capacity(4);
        match &self.job.form {
            Form::Plain => {
                if self.crypto.cipher.is_some() {
                    parts.push(data);
                }
                if let Some(hash) = &self.crypto.hash
                    && finishes(self.job.flags, data.len())
                {
                    parts.push(&self.digest[..hash.bytes()]);
                }
            }
            Form::Aead { tag, .. } if self.job.encrypt => parts.extend([data, &self.digest[..*tag]]),
            Form::Aead { tag, .. } => parts.push(&data[..data.len() - tag]),
            Form::Tls { .. } => parts.push(data),
            Form::Srtp { tag, .. } => {
                parts.push(data);
                if self.job.encrypt && self.crypto.hash.is_some() {
                    parts.push(&self.digest[..*tag]);
                }
            }
        }
        if !self.job.iv.is_empty() && self.job.flags & abi::COP_FLAG_WRITE_IV != 0 {
            parts.push(&self.state.iv[..self.job.iv.len()]);
        }
        parts.push(&self.job.answer);
        Ok(parts)
    }
}

/// Runs all steps of all tasks, side by side.
pub(crate) fn side_by_side<'t>(tasks: impl IntoIterator<Item = &'t mut Task>) {
    let mut active: Vec<&mut Task> = tasks.into_iter().collect();
    let batch_size = active.len();
    loop {
        active.retain_mut(|task| task.advance(batch_size));
        if active.is_empty() {
            return;
        }
        step(&mut active);
    }
}

/// Runs one step of all tasks.
fn step(active: &mut [&mut Task]) {
    let mut sessions = Vec::with_capacity(active.len());
    let mut requests = Vec::with_capacity(active.len());
    let mut has_request = Vec::with_capacity(active.len());
    for task in active.iter_mut() {
        let step = task.session_of_step().and_then(|session| Some((session, task.request()?)));
        has_request.push(step.is_some());
        if let Some((session, request)) = step {
            sessions.push(session);
            requests.push(request);
        }
    }
    // This cannot fail: all sessions belong to the server's framework.
    let _ = Session::process_each(&sessions, &mut requests);
    let outcomes: Vec<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
    let mut outcomes = outcomes.into_iter();
    for (task, has_request) in active.iter_mut().zip(has_request) {
        task.settle(if has_request { outcomes.next().flatten() } else { None });
    }
}

/// Returns the session of an AEAD with tags of `tag` bytes.
fn with_tag(session: &Session, tag: usize) -> Option<Session> {
    if session.params().tag_len() == tag {
        return Some(session.clone());
    }
    session.gantry().session(session.params().clone().with_tag_len(tag)).ok()
}

/// Returns the nonce in an IV. For CCM the kernel expects the whole first counter block: 14 less the nonce's length, the
/// nonce, zeros (RFC 3610, 2.3).
fn nonce<'s>(cipher: &Cipher, iv: &'s [u8; abi::MAX_IV]) -> Option<&'s [u8]> {
    if cipher.row.number != 51 {
        return Some(&iv[..cipher.row.iv]);
    }
    (1..=7).contains(&iv[0]).then(|| &iv[1..15 - usize::from(iv[0])])
}

#[cfg(test)]
mod tests;
