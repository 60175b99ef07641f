//! One queue of a guest, with the descriptors by which both sides wake each other.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;

/// Descriptors of the largest queue.
pub(crate) const LARGEST: u16 = 1024;

pub(crate) struct Ring {
    pub(crate) queue: Queue,
    kick: Option<File>,
    call: Option<File>,
    error: Option<File>,
    /// The front end has said how the guest is called, be it that it is not.
    call_known: bool,
    /// What the front end said last; `None` if it never did.
    enabled: Option<bool>,
    /// Requests are taken from it.
    pub(crate) started: bool,
    /// Chains that were taken and have not gone back.
    pub(crate) in_flight: usize,
    /// Whether the guest's driver uses event indices; `None` where the front end does not say what it uses.
    pub(crate) event_idx: Option<bool>,
}

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            queue: Queue::new(LARGEST).map_err(io::Error::other)?,
            kick: None,
            call: None,
            error: None,
            call_known: false,
            enabled: None,
            started: false,
            in_flight: 0,
            event_idx: None,
        })
    }

    /// By what the guest wakes the server. The ring must be [stopped](Self::stop).
    pub(crate) fn set_kick(&mut self, file: Option<File>) -> io::Result<()> {
        self.kick = file.map(never_blocking).transpose()?;
        Ok(())
    }

    /// By what the server wakes the guest.
    pub(crate) fn set_call(&mut self, file: Option<File>) -> io::Result<()> {
        self.call = file.map(never_blocking).transpose()?;
        self.call_known = true;
        Ok(())
    }

    /// By what the front end hears that the ring is broken.
    pub(crate) fn set_error(&mut self, file: Option<File>) -> io::Result<()> {
        self.error = file.map(never_blocking).transpose()?;
        Ok(())
    }

    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        self.enabled = Some(enabled);
    }

    /// Starts the ring when everything is known that it needs. `unasked` is said where the front end is of the kind that never
    /// enables a ring. The descriptor for calls must be known: with the one for kicks alone, a first request could be done before
    /// there is anybody to call.
    pub(crate) fn start(&mut self, unasked: bool, epoll: &Epoll, token: u64) -> io::Result<()> {
        let Some(kick) = &self.kick else { return Ok(()) };
        if self.started || !self.call_known || !self.enabled.unwrap_or(unasked) || self.queue.avail_ring() == 0 {
            return Ok(());
        }
        self.queue.set_ready(true);
        // Where nobody says whether the driver reads the index, it is written: a driver that does not read it does not mind.
        self.queue.set_event_idx(self.event_idx.unwrap_or(true));
        // Edges: each kick is an event, and the descriptor, which is the front end's, too, is never read.
        epoll.add(kick.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, token))?;
        self.started = true;
        // Requests may have been there before.
        self.kick();
        Ok(())
    }

    /// No request is taken from now on.
    pub(crate) fn stop(&mut self, epoll: &Epoll) {
        if std::mem::take(&mut self.started)
            && let Some(kick) = &self.kick
        {
            // It was added when the ring was started.
            let _ = epoll.delete(kick.as_fd());
        }
    }

    /// Forgets how both sides wake each other, which the front end says anew before the ring starts again.
    pub(crate) fn forget(&mut self) {
        (self.kick, self.call, self.call_known) = (None, None, false);
        self.queue.set_ready(false);
    }

    /// The same, and whether it was enabled: QEMU's cryptodev resets the device before it uses it, and enables nothing afterwards.
    pub(crate) fn reset(&mut self) {
        self.forget();
        self.enabled = None;
    }

    /// Wakes the server as the guest would.
    pub(crate) fn kick(&self) {
        signal(self.kick.as_ref());
    }

    /// Wakes the guest, if it wants to be.
    pub(crate) fn call(&mut self, memory: &GuestMemoryMmap) {
        // Where nobody says what the driver reads, it is called always.
        let wanted = match self.event_idx {
            Some(true) => self.queue.needs_notification(memory).unwrap_or(true),
            _ => true,
        };
        if wanted {
            signal(self.call.as_ref());
        }
    }

    /// Tells the front end that the ring is broken.
    pub(crate) fn report(&self) {
        signal(self.error.as_ref());
    }
}

/// A descriptor that is full has been signalled before.
fn signal(file: Option<&File>) {
    if let Some(mut file) = file {
        let _ = file.write(&1_u64.to_ne_bytes());
    }
}

/// The threads that write to it serve all guests.
fn never_blocking(file: File) -> io::Result<File> {
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(file)
}
